"""The rarer types on the whole way, from the binlog into Delta, compared with the source."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from orchestration.stack.mysql.server import MySqlServer
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration

_CHANGES = (
    "UPDATE {} SET n = n + 10 WHERE n = 2",
    "DELETE FROM {} WHERE n = 1 LIMIT 1",
    "INSERT INTO {} SELECT * FROM kept WHERE n = 3",
)


def _follow(shop: Shop, columns: str, *rows: str) -> dict[str, str]:
    """Writes rows, which begin with a number `n`, into a table with a key and one without, and follows changes of every
    kind. Returns the types in the lake."""
    shop.execute(
        f"CREATE TABLE kept (n INT, {columns})",
        f"CREATE TABLE copies (n INT, {columns})",
        f"CREATE TABLE keyed (id INT AUTO_INCREMENT PRIMARY KEY, n INT, {columns})",
        f"INSERT INTO kept VALUES {', '.join(rows)}",
        "INSERT INTO copies SELECT * FROM kept",
        "INSERT INTO copies SELECT * FROM kept",
        "INSERT INTO keyed SELECT NULL, kept.* FROM kept",
    )
    same = dict.fromkeys(("kept", "copies", "keyed"), (0, 0, 0))
    assert shop.drain() == []
    assert shop.differences(*same) == same
    shop.execute(*(change.format("copies") for change in _CHANGES))
    shop.execute("UPDATE keyed SET n = n + 10 WHERE n = 2", "DELETE FROM keyed WHERE n = 1")
    assert shop.drain() == []
    assert shop.differences(*same) == same
    fields = DeltaTable(shop.lake.lake.path(shop.database, "keyed")).schema().fields
    return {field.name: str(field.type.type) for field in fields}


@pytest.mark.in_turn
@pytest.mark.full
def test_mysql_types(mysql9: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """GEOMETRY, VECTOR, zero dates as text, generated and invisible columns."""
    columns = "g GEOMETRY, v VECTOR(3), d DATE, at DATETIME(2), ts TIMESTAMP NULL"
    rows = ("ST_GeomFromText('POINT(1 2)', 4326), TO_VECTOR('[1,-2.5,0]'), '2024-00-00', '0000-00-00', 0",)
    rows += ("NULL, NULL, NULL, NULL, NULL", "ST_GeomFromText('POINT(3 4)'), TO_VECTOR('[0,0,1]'), '2024-02-29', 0, 0")
    with opened_shop(mysql9, spark_remote, tmp_path, sluice_zero_dates="string") as shop:
        server_mode(shop, "ALLOW_INVALID_DATES")
        try:
            shop.execute(
                "SET SESSION sql_generate_invisible_primary_key = ON",
                "CREATE TABLE hidden (v INT, w INT AS (v * 2) VIRTUAL, x INT AS (v * 3) STORED, secret INT INVISIBLE)",
                "INSERT INTO hidden (v, secret) VALUES (1, 5), (2, 6), (3, 7)",
                "UPDATE hidden SET v = 9 WHERE v = 1",
                "DELETE FROM hidden WHERE v = 2",
            )
            found = _follow(shop, columns, *(f"({n}, {row})" for n, row in enumerate(rows, 1)))
        finally:
            server_mode(shop, "DEFAULT")
        assert shop.differences("hidden") == {"hidden": (0, 0, 0)}
    assert (found["g"], found["v"], found["d"], found["at"], found["ts"]) == ("struct", "array", *["string"] * 3)


def server_mode(shop: Shop, mode: str) -> None:
    value = mode if mode == "DEFAULT" else f"'{mode}'"
    shop.execute(f"SET GLOBAL sql_mode = {value}")


@pytest.mark.in_turn
def test_mariadb_types(mariadb: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """UUID, INET4, INET6 and COMPRESSED."""
    columns = "u UUID, a INET4, b INET6, c TEXT COMPRESSED, g POINT"
    some = "'123e4567-e89b-12d3-a456-426655440000', '10.0.0.0', '2001:db8::1', REPEAT('é', 500), POINT(1, 2)"
    with opened_shop(mariadb, spark_remote, tmp_path) as shop:
        found = _follow(shop, columns, f"(1, {some})", "(2, NULL, NULL, NULL, '', NULL)", f"(3, {some})")
    assert [found[name] for name in "uabc"] == ["string"] * 4

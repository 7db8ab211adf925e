"""DATETIMEs as instants and as texts, by the real parts: MySQL, the service, Spark, Delta."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_core import config
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Cast
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load.loader import Loader
from spark_jobs.load.result import Copied
from spark_jobs.snapshot.source import captured_source
from spark_jobs.verify.comparer import TableComparer
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration
INSTANT = (Cast.DATETIME_TIMESTAMP,)
RULES = Rules(
    {
        "*.texts": TableRule(casts=(Cast.DATETIME_STRING,)),
        "*.utc": TableRule(casts=INSTANT),
        "*.bare": TableRule(casts=INSTANT),
        "*.zoned": TableRule(casts=INSTANT, zone="Europe/Berlin"),
        "*.keyed": TableRule(casts=INSTANT, zone="Europe/Berlin"),
        "*.text_keys": TableRule(casts=(Cast.DATETIME_STRING,)),
    }
)
TABLES = ("texts", "utc", "bare", "zoned", "keyed", "text_keys")
KEYED = ("keyed", "text_keys")
MOMENTS = ("2024-07-01 08:30:00.250", "2024-01-01 00:00:00", "2024-10-27 02:30:00", "3979-07-01 12:00:00")
BERLIN = [  # of the same, in UTC
    datetime(2024, 7, 1, 6, 30, 0, 250_000, UTC), datetime(2023, 12, 31, 23, tzinfo=UTC),
    datetime(2024, 10, 27, 0, 30, tzinfo=UTC), datetime(3979, 7, 1, 10, tzinfo=UTC),
]  # fmt: skip


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        shop.connector.set_rules(RULES)
        for table in TABLES:
            key = "" if table == "bare" else f", PRIMARY KEY ({'at' if table in KEYED else 'id'})"
            shop.execute(f"CREATE TABLE {table} (id INT, at DATETIME(3), day DATE, v INT{key})")
            values = ", ".join(f"({n}, '{moment}', '2024-02-03', 0)" for n, moment in enumerate(MOMENTS))
            shop.execute(f"INSERT INTO {table} VALUES {values}")
        yield shop


def there(shop: Shop, table: str) -> list[Any]:
    """The moments of the lake's rows, by their ids; read as a user of Python reads them."""
    found = DeltaTable(shop.lake.lake.path(shop.database, table))
    assert "timestampNtz" not in (found.protocol().reader_features or ())
    assert len(found.to_pandas()) == found.count()
    rows = pa.table(found.to_pyarrow_table(columns=["id", "at"])).sort_by("id")
    return list(rows.column("at").to_pylist())


def same(shop: Shop, tmp_path: Path, *tables: str) -> None:
    """Source and lake agree, as `sluice verify` sees it."""
    instance = config.load_instance(tmp_path / "conf", "shop")[0]
    source = captured_source(instance, shop.connector.status().source, shop.connector.rules())
    comparer = TableComparer(shop.connector, source, shop.lake.lake)
    for table in tables:
        found = comparer.table(shop.database, table)
        assert not found.error, found
        assert not found.differences, found


@pytest.mark.in_turn
@pytest.mark.full
def test_moments_are_those_of_the_rule(shop: Shop, tmp_path: Path) -> None:
    """By the stream, by a copy, and by the stream again, in keys too."""
    assert shop.drain() == []
    texts = ["2024-07-01 08:30:00.250", *(f"{moment}.000" for moment in MOMENTS[1:])]
    plain = [datetime.fromisoformat(moment).replace(tzinfo=UTC) for moment in MOMENTS]
    wanted = {"texts": texts, "text_keys": texts, "utc": plain, "bare": plain, "zoned": BERLIN, "keyed": BERLIN}
    loader = Loader(
        shop.connector, config.load_instance(tmp_path / "conf", "shop")[0], shop.lake.lake, shop.lake.sessions
    )
    for copied in (False, True):
        if copied:
            assert all(isinstance(loader.table(shop.database, table), Copied) for table in TABLES)
        assert {table: there(shop, table) for table in TABLES} == wanted
        same(shop, tmp_path, *TABLES)
    for table in TABLES:
        shop.execute(
            f"UPDATE {table} SET v = 1 WHERE id = 0",
            f"UPDATE {table} SET at = at + INTERVAL 1 MINUTE WHERE id = 1",
            f"DELETE FROM {table} WHERE id = 2",
            f"ALTER TABLE {table} ADD more INT",
            f"INSERT INTO {table} VALUES (9, '1999-12-31 23:59:59.999', NULL, 9, 9)",
        )
    assert shop.drain() == []
    same(shop, tmp_path, *TABLES)
    assert there(shop, "zoned")[-1] == datetime(1999, 12, 31, 22, 59, 59, 999_000, UTC)


def test_a_row_that_was_changed_in_the_lake_is_found(shop: Shop, tmp_path: Path) -> None:
    """In each form."""
    assert shop.drain() == []
    instance = config.load_instance(tmp_path / "conf", "shop")[0]
    source = captured_source(instance, shop.connector.status().source, shop.connector.rules())
    for table, value in (("texts", "'2024-01-01 00:00:00'"), ("utc", "now()"), ("zoned", "now()")):
        DeltaTable(shop.lake.lake.path(shop.database, table)).update({"at": value}, predicate="id = 1")
        found = TableComparer(shop.connector, source, shop.lake.lake).table(shop.database, table).comparison
        assert found is not None
        assert (found.missing, found.extra, found.different) == (0, 0, 1)


def test_a_time_that_is_no_instant_stops_its_table_alone(shop: Shop, tmp_path: Path) -> None:
    """The reason says what to do; a text keeps it, and UTC has it."""
    assert shop.drain() == []
    for table in TABLES:
        shop.execute(f"INSERT INTO {table} VALUES (5, '2024-03-31 02:30:00', NULL, 0)")
    assert sorted(shop.drain()) == [f"{shop.database}.keyed", f"{shop.database}.zoned"]
    reasons = [f"{stop.reason} {stop.hint}" for stop in shop.connector.client_status().stopped]
    assert all("does not exist in Europe/Berlin, 2024-03-31 02:30:00" in reason for reason in reasons)
    assert all("sluice.zero.dates" in reason for reason in reasons)
    same(shop, tmp_path, "texts", "utc", "bare", "text_keys")


def test_a_text_keeps_zero_dates(shop: Shop, tmp_path: Path) -> None:
    """Where other dates of the destination are refused."""
    zero = ("SET SESSION sql_mode = ''", "INSERT INTO texts VALUES (7, '0000-00-00', '2024-01-01', 0)")
    shop.execute(*zero)
    assert shop.drain() == []
    assert there(shop, "texts")[-1] == "0000-00-00 00:00:00.000"
    same(shop, tmp_path, "texts")

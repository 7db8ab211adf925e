"""What programs of others read of the lake: each cell of the matrix in docs/readers.md, compared with Spark's rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake import tables
from spark_jobs.lake.features import CHANGE_FEED
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.layout import Layouts, Vectors
from spark_jobs.lake.sql import quote
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.notes import Notes
from spark_jobs.write import vectors
from tests.support.landed import LandedShop, opened_landed
from tests.support.readers.cells import READERS, rows_of
from tests.support.readers.environment import read, readers_python

pytestmark = [pytest.mark.integration, pytest.mark.full]
_DOCS = Path(__file__).parents[2] / "docs" / "readers.md"
_LAYOUTS = Layouts(
    vectors_by={"*.vectors": Vectors.ALWAYS},
    properties={"*.feed": {CHANGE_FEED: "true"}},
    cluster_by={"*.clustered": ("kind",)},
    partition_by={"*.partitioned": ("kind",)},
)
_NTZ, _LISTED = {"timestampNtz"}, {"appendOnly", "invariants"}
TABLES = {  # of the matrix: the table, and its features; a list of features may have those that every writer knows
    "all types": ("types", _NTZ),
    "GEOMETRY": ("places", set()),
    "DATETIME": ("moments", _NTZ),
    "DECIMAL(38)": ("decimals", set()),
    "change log": ("events__log", _NTZ),
    "history": ("events__history", _NTZ),
    "partitioned": ("partitioned", set()),
    "clustered": ("clustered", {"clustering", "domainMetadata"}),
    "change data feed": ("feed", {"changeDataFeed"}),
    "deletion vectors": ("vectors", {"deletionVectors"}),
    "renamed column": ("renamed", {"columnMapping"}),
    "name with a blank": ("blanks", {"columnMapping"}),
}
_PLAIN = ("partitioned", "clustered", "feed", "vectors", "renamed")
_TYPES = """id BIGINT UNSIGNED PRIMARY KEY, b BIT(8), t TINYINT, i INT, u BIGINT UNSIGNED, d DECIMAL(20, 4),
    wide DECIMAL(65, 30), f FLOAT, r DOUBLE, day DATE, at DATETIME(6), ts TIMESTAMP(6) NULL, clock TIME(3), y YEAR,
    name VARCHAR(40), body TEXT, raw VARBINARY(16), bytes BLOB, label ENUM('a', 'b'), labels SET('x', 'y'), doc JSON"""
_VALUES = """(18446744073709551615, 5, -7, 42, 18446744073709551614, -1.5, 0.000000000000000000000000000001, 1.25,
    1e300, '2024-02-29', '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05.678901', '-12:34:56.789', 2026, 'Grüße',
    'text', x'00ff', x'01', 'b', 'x,y', '{"a": [1, null]}'),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL)"""


@pytest.fixture(scope="module")
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LandedShop]:
    """All tables of the matrix, with rows that came, changed and went."""
    with (
        opened_landed(mysql8, spark_remote, tmp_path_factory.mktemp("readers")) as found,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(tables, "SMALL_TABLE", -1)  # a MERGE adds vectors, where a table may have them
        patch.setattr(vectors, "LARGE_SHARE", 1.0)
        lake = Lake(found.lake.lake.root, complete=True, layouts=_LAYOUTS)
        modes = Modes(Mode.MERGE, {"*.events": Mode.HISTORY})
        fence = Fence(lake, found.lake.sessions)
        found.lake = replace(found.lake, lake=lake, modes=modes, fence=fence, notes=Notes())
        _write(found)
        yield found


def _write(shop: LandedShop) -> None:
    rows = ", ".join(f"({n}, {n % 3}, 'v{n}')" for n in range(1, 101))
    for name in _PLAIN:
        shop.execute(
            f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, kind INT, v VARCHAR(20))",
            f"INSERT INTO {name} VALUES {rows}",
        )
    shop.execute(
        f"CREATE TABLE types ({_TYPES})",
        f"INSERT INTO types VALUES {_VALUES}",
        "CREATE TABLE places (id INT PRIMARY KEY, place POINT)",
        "INSERT INTO places VALUES (1, ST_GeomFromText('POINT(1 2)')), (2, NULL)",
        "CREATE TABLE moments (id INT PRIMARY KEY, at DATETIME(6))",
        "INSERT INTO moments VALUES (1, '2026-01-02 03:04:05.678901'), (2, NULL), (3, '1000-01-01 00:00:00')",
        "CREATE TABLE decimals (id INT PRIMARY KEY, big DECIMAL(38, 10))",
        "INSERT INTO decimals VALUES (1, 9999999999999999999999999999.9999999999), (2, -0.0000000001), (3, NULL)",
        "CREATE TABLE blanks (id INT PRIMARY KEY, `odd name` INT)",
        "INSERT INTO blanks VALUES (1, 1), (2, NULL)",
        "CREATE TABLE events (id INT PRIMARY KEY, at DATETIME(3), v VARCHAR(20))",
        "INSERT INTO events VALUES (1, '2026-01-02 03:04:05.678', 'a'), (2, NULL, 'b')",
    )
    assert shop.drain() == []
    shop.execute("ALTER TABLE renamed RENAME COLUMN v TO w")
    for name in _PLAIN:
        value = "w" if name == "renamed" else "v"
        shop.execute(
            f"UPDATE {name} SET {value} = 'new', kind = 9 WHERE id % 10 = 0",
            f"DELETE FROM {name} WHERE id % 10 = 5",
            f"INSERT INTO {name} VALUES (1000, NULL, NULL)",
        )
    shop.execute("UPDATE events SET v = 'c' WHERE id = 1", "DELETE FROM events WHERE id = 2")
    assert shop.drain() == []
    shop.keep("events")


@pytest.fixture(scope="module")
def by_spark(shop: LandedShop) -> dict[str, list[str]]:
    """The rows of each table as Spark reads them, by its path."""
    with shop.lake.sessions.take() as spark:
        paths = [shop.lake.lake.path(shop.database, name) for name, _ in TABLES.values()]
        return {path: rows_of(spark.sql(f"SELECT * FROM delta.{quote(path)}").toArrow()) for path in paths}


@pytest.mark.in_turn
def test_what_the_source_has_is_what_spark_reads(shop: LandedShop, by_spark: dict[str, list[str]]) -> None:
    """In every form of a table, which has the features of its form and no others."""
    merged = [name for name, _ in TABLES.values() if "__" not in name]
    assert shop.differences(*merged) == dict.fromkeys(merged, (0, 0, 0))
    assert all(len(rows) > 1 for rows in by_spark.values())
    for name, wanted in TABLES.values():
        protocol = DeltaTable(shop.lake.lake.path(shop.database, name)).protocol()
        found = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
        if protocol.writer_features:  # a table of the older protocols lists none
            assert found - _LISTED == wanted, name
    lake, at = shop.lake.lake, shop.database
    assert any(one.count("numTargetDeletionVectorsAdded") for one in lake.commits(lake.path(at, "vectors")))
    assert DeltaTable(lake.path(at, "partitioned")).metadata().partition_columns == ["kind"]


@pytest.mark.in_turn
@pytest.mark.parametrize("reader", READERS)
def test_the_matrix_of_the_manual_is_right(reader: str, shop: LandedShop, by_spark: dict[str, list[str]]) -> None:
    """A cell that says yes reads what Spark reads; one that says no ends with an error, one that says NULL has NULL for
    some values, without an error."""
    paths = {feature: shop.lake.lake.path(shop.database, name) for feature, (name, _) in TABLES.items()}
    found = read(readers_python(), reader, list(paths.values()))
    shown = {feature: _verdict(found[path], by_spark[path]) for feature, path in paths.items()}
    assert shown == {feature: cells[reader] for feature, cells in _matrix().items()}, _errors(found)


def test_the_change_feed_has_what_changed(shop: LandedShop) -> None:
    """Read by Spark and by delta-rs: the rows of the statements, each once."""
    path = shop.lake.lake.path(shop.database, "feed")
    with shop.lake.sessions.take() as spark:
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)
        by_spark = {row["_change_type"]: row["count"] for row in feed.groupBy("_change_type").count().collect()}
    table = DeltaTable(path).load_cdf(starting_version=0).read_all()
    kinds = [str(one) for one in table.column("_change_type").to_pylist()] if hasattr(table, "column") else []
    assert by_spark == {"insert": 101, "update_preimage": 10, "update_postimage": 10, "delete": 10}
    assert {kind: kinds.count(kind) for kind in set(kinds)} == by_spark


def _verdict(found: dict[str, Any], rows: list[str]) -> str:
    if "error" in found:
        return "no"
    if found["rows"] == rows:
        return "yes"
    pairs = [(json.loads(one), json.loads(other)) for one, other in zip(found["rows"], rows, strict=True)]
    if all(value in (None, other[name]) for one, other in pairs for name, value in one.items()):
        return "NULL"
    return f"other rows: {_first_difference(found['rows'], rows)}"


def _first_difference(found: list[str], rows: list[str]) -> str:
    pairs = zip(found, rows, strict=False)
    return next((f"{one} for {other}" for one, other in pairs if one != other), f"{len(found)} for {len(rows)}")


def _errors(found: dict[str, dict[str, Any]]) -> str:
    return json.dumps({path.rpartition("/")[2]: one["error"] for path, one in found.items() if "error" in one})


def _matrix() -> dict[str, dict[str, str]]:
    """The cells of the manual's table, `yes` or `no`, by feature and reader."""
    lines = [line for line in _DOCS.read_text().splitlines() if line.startswith("|")]
    header, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    found = {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in body if row[0] in TABLES}
    return {
        feature: {name: re.split(r"\W", cell)[0] for name, cell in cells.items()} for feature, cells in found.items()
    }

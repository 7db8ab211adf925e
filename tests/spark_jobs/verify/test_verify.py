"""Tables at rest, against a real MySQL: the comparison and the independent judge find what is wrong, nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition
from spark_jobs.lake.record import DROPPED
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.snapshot.source import Source
from spark_jobs.verify.comparer import TableComparer, compared
from spark_jobs.verify.verified import Comparison, Verified
from tests.support.judge.compare import compare
from tests.support.judge.verify import Reader, verify

pytestmark = pytest.mark.integration


@pytest.fixture(params=["mysql8", "mysql57", "mysql9", "mariadb"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def database(server: Any) -> Iterator[str]:
    with server.database() as name:
        yield name


def source(server: Any) -> Source:
    return Source(server.host, server.port, server.user, server.password)


def reader() -> Reader:
    return Reader("d", 1, 0, lambda: EntryPosition("bin.9999999", 4))


@dataclass(frozen=True)
class Rest:
    """A client that has acked up to its cursor, and for which nothing waits."""

    cursor: Callable[[], EntryPosition] = lambda: EntryPosition("bin.9999999", 4)
    destination: str = "d"
    client_id: int = 1

    def client_status(self) -> SimpleNamespace:
        return SimpleNamespace(cursor=self.cursor(), epoch=0, reached=None, claims=(), waiting=0, stopped=())

    def status(self) -> SimpleNamespace:
        return SimpleNamespace(position=self.cursor())

    def get_without_ack(self, *_: Any, **__: Any) -> None:
        return None

    def tables(self) -> tuple[()]:
        return ()


def beside(server: Any, lake: Lake, rest: Rest | None = None, timeout_seconds: float = 60) -> TableComparer:
    connector: Any = rest or Rest()
    return TableComparer(connector, source(server), lake, timeout_seconds, sleep=lambda _: time.sleep(0.05))


def both(server: Any, tables: list[tuple[str, str]], lake: Lake) -> list[Verified]:
    """What the comparison finds, which the judge finds too."""
    judged = list(verify(source(server), tables, lake, reader()))
    found = list(compared(beside(server, lake), tables))
    assert [(one.comparison, one.definition) for one in found] == [(one.comparison, one.definition) for one in judged]
    return found


def run(server: Any, statements: list[str]) -> None:
    with server.root() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_each_kind_of_difference_is_counted(server: Any, database: str, tmp_path: Path) -> None:
    """By key: one missing, two extra (one of them a second copy of a key), one different. Without a key: copies."""
    run(server, [f"CREATE TABLE {database}.k (id INT PRIMARY KEY, v VARCHAR(9))"])
    run(server, [f"INSERT INTO {database}.k VALUES (1,'a'),(2,'b'),(3,NULL)"])
    run(server, [f"CREATE TABLE {database}.m (a INT, b VARCHAR(9))"])
    run(server, [f"INSERT INTO {database}.m VALUES (1,'x'),(1,'x'),(2,NULL)"])
    lake = Lake(tmp_path)
    keyed = pa.table({"id": pa.array([1, 1, 3, 4], pa.int32()), "v": ["a", "a", "z", "n"]})
    write_deltalake(lake.path(database, "k"), keyed)
    copies = pa.table({"a": pa.array([1, 1, 1, 3], pa.int32()), "b": ["x", "x", "x", None]})
    write_deltalake(lake.path(database, "m"), copies)
    k, m = (found.to_dict() for found in both(server, [(database, "k"), (database, "m")], lake))
    assert (k["source_rows"], k["lake_rows"], k["missing"], k["extra"], k["different"]) == (3, 4, 1, 2, 1)
    assert (m["source_rows"], m["lake_rows"], m["missing"], m["extra"], m["different"]) == (3, 4, 1, 2, 0)
    counts = {"source_rows", "lake_rows", "missing", "extra", "different"}
    assert set(k) == {"table", *counts, "position", "definition", "error", "repaired", "remedy", "on_purpose"}
    assert k["position"]


def test_values_are_compared_exactly(server: Any, database: str, tmp_path: Path) -> None:
    """Values at their edges are those that Arrow has for them."""
    run(
        server,
        [
            f"CREATE TABLE {database}.t (id INT PRIMARY KEY, u BIGINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(20,6), "
            "big DECIMAL(65,2), b1 BIT(1), b9 BIT(9), b64 BIT(64), y YEAR, dt DATE, t TIME(6), dtm DATETIME(6), "
            "ts TIMESTAMP(6) NULL, s SET('a','b'), bin VARBINARY(9), txt TEXT CHARACTER SET latin1)",
            f"INSERT INTO {database}.t VALUES (1, 18446744073709551615, 3.4e38, 0.1, -12345678901234.567891, "
            "-0.50, 1, 257, 18446744073709551615, 2155, '1000-01-01', '-00:00:01.500000', "
            "'9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.000001', 'a,b', x'00ff00', 'café'), "
            "(2, 0, 16777217, 1e-300, 0, 0, 0, 0, 0, 1901, "
            "NULL, '838:59:59', NULL, NULL, '', '', ''), (3, " + ", ".join(["NULL"] * 16) + ")",
        ],
    )
    (row,) = both(server, [(database, "t")], Lake(tmp_path))
    assert (row.comparison.source_rows, row.comparison.missing, row.comparison.lake_rows) == (3, 3, 0)
    lake = Lake(tmp_path)
    write_deltalake(lake.path(database, "t"), pa.table(expected_columns()))
    (row,) = both(server, [(database, "t")], lake)
    assert (row.comparison.missing, row.comparison.extra, row.comparison.different) == (0, 0, 0)


def expected_columns() -> dict[str, pa.Array]:
    """What the types table of docs/types.md makes of those rows."""
    top = Decimal(2**64 - 1)
    return {
        "id": pa.array([1, 2, 3], pa.int32()),
        "u": pa.array([top, Decimal(0), None], pa.decimal128(20, 0)),
        "f": pa.array([3.4e38, 16777216.0, None], pa.float32()),
        "d": pa.array([0.1, 1e-300, None], pa.float64()),
        "n": pa.array([Decimal("-12345678901234.567891"), Decimal(0), None], pa.decimal128(20, 6)),
        "big": pa.array(["-0.50", "0.00", None]),
        "b1": pa.array([True, False, None]),
        "b9": pa.array([257, 0, None], pa.int64()),
        "b64": pa.array([top, Decimal(0), None], pa.decimal128(20, 0)),
        "y": pa.array([2155, 1901, None], pa.int16()),
        "dt": pa.array([date(1000, 1, 1), None, None], pa.date32()),
        "t": pa.array([-1_500_000, 3_020_399_000_000, None], pa.int64()),
        "dtm": pa.array([datetime(9999, 12, 31, 23, 59, 59, 999999), None, None], pa.timestamp("us")),
        "ts": pa.array([datetime(2038, 1, 19, 3, 14, 7, 1, UTC), None, None], pa.timestamp("us", "UTC")),
        "s": pa.array(["a,b", "", None]),
        "bin": pa.array([b"\x00\xff\x00", b"", None], pa.binary()),
        "txt": pa.array(["café", "", None]),
    }


def test_shapes_and_dates_are_compared_exactly(server: Any, database: str, tmp_path: Path) -> None:
    """Geometries by their stored bytes; zero dates as NULL, or as text where the lake has text."""
    run(
        server,
        [
            f"CREATE TABLE {database}.t (id INT PRIMARY KEY, g GEOMETRY, d DATE, dt DATETIME(1), ts TIMESTAMP NULL)",
            f"CREATE TABLE {database}.copies (g POINT, d DATE)",
            "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
            f"INSERT INTO {database}.t VALUES (1, ST_GeomFromText('POINT(1 2)', 4326), '2024-00-00', "
            "'2023-02-31 01:02:03.4', 0), (2, NULL, '0000-01-01', NULL, '2038-01-19 03:14:07'), "
            "(3, NULL, '2023-02-31', '0000-00-00', NULL)",
            f"INSERT INTO {database}.copies SELECT g, d FROM {database}.t",
        ],
    )
    with server.root(database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT g FROM t ORDER BY id")
        raw = cursor.fetchall()[0][0]
    shape = pa.struct([("srid", pa.int64()), ("wkb", pa.binary())])
    shapes = pa.array([{"srid": 4326, "wkb": raw[4:]}, None, None], shape)
    none, top = pa.array([None, None, None]), datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)
    as_null = {
        "id": pa.array([1, 2, 3], pa.int32()),
        "g": shapes,
        "d": pa.array([None, -719528, None], pa.int32()).cast(pa.date32()),
        "dt": none.cast(pa.timestamp("us")),
        "ts": pa.array([None, top, None], pa.timestamp("us", "UTC")),
    }
    as_text = as_null | {
        "d": pa.array(["2024-00-00", "0000-01-01", "2023-02-31"]),
        "dt": pa.array(["2023-02-31 01:02:03.4", None, "0000-00-00 00:00:00.0"]),
        "ts": pa.array(["0000-00-00 00:00:00", "2038-01-19 03:14:07", None]),
    }
    for name, columns in (("null", as_null), ("text", as_text)):
        lake = Lake(tmp_path / name)
        write_deltalake(lake.path(database, "t"), pa.table(columns))
        write_deltalake(lake.path(database, "copies"), pa.table({at: columns[at] for at in ("g", "d")}))
        for row in both(server, [(database, "t"), (database, "copies")], lake):
            assert (
                row.comparison.source_rows,
                row.comparison.missing,
                row.comparison.extra,
                row.comparison.different,
            ) == (3, 0, 0, 0)
    wrong = as_text | {"g": pa.array([{"srid": 0, "wkb": raw[4:]}, None, None], shape)}
    write_deltalake(lake.path(database, "t"), pa.table(wrong), mode="overwrite")
    (row,) = both(server, [(database, "t")], lake)
    assert row.comparison.different == 1


def test_vectors_are_compared_exactly(mysql9: Any, tmp_path: Path) -> None:
    """As their numbers."""
    lake = Lake(tmp_path)
    with mysql9.database() as database:
        run(mysql9, [f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v VECTOR(2))"])
        run(mysql9, [f"INSERT INTO {database}.t VALUES (1, TO_VECTOR('[1.5,-2]')), (2, NULL)"])
        vectors = pa.array([[1.5, -2.0], None], pa.list_(pa.float32()))
        write_deltalake(lake.path(database, "t"), pa.table({"id": pa.array([1, 2], pa.int32()), "v": vectors}))

        (row,) = both(mysql9, [(database, "t")], lake)

        assert (row.comparison.missing, row.comparison.extra, row.comparison.different) == (0, 0, 0)


def test_mariadb_addresses_and_compressed_columns_are_compared_exactly(mariadb: Any, tmp_path: Path) -> None:
    """As text."""
    lake = Lake(tmp_path)
    with mariadb.database() as database:
        columns = "id INT PRIMARY KEY, u UUID, a INET4, b INET6, c VARCHAR(99) COMPRESSED"
        run(mariadb, [f"CREATE TABLE {database}.t ({columns})"])
        uuid = "123e4567-e89b-12d3-a456-426655440000"
        run(mariadb, [f"INSERT INTO {database}.t VALUES (1, '{uuid}', '10.0.0.1', '1:0:2:3:4:5:6:7', REPEAT('é', 90))"])
        texts = {"u": [uuid], "a": ["10.0.0.1"], "b": ["1::2:3:4:5:6:7"], "c": ["é" * 90]}
        write_deltalake(lake.path(database, "t"), pa.table({"id": pa.array([1], pa.int32()), **texts}))

        (row,) = both(mariadb, [(database, "t")], lake)

        assert (row.comparison.missing, row.comparison.extra, row.comparison.different) == (0, 0, 0)


def test_a_hidden_key_is_part_of_the_table(mysql8: Any, tmp_path: Path) -> None:
    """Whether or not the catalogue shows it."""
    lake = Lake(tmp_path)
    with mysql8.database() as database:
        run(mysql8, ["SET SESSION sql_generate_invisible_primary_key = ON", f"CREATE TABLE {database}.t (v INT)"])
        run(mysql8, [f"INSERT INTO {database}.t VALUES (7)"])
        key = pa.array([Decimal(1)], pa.decimal128(20, 0))
        write_deltalake(lake.path(database, "t"), pa.table({"my_row_id": key, "v": pa.array([7], pa.int32())}))
        run(mysql8, ["SET GLOBAL show_gipk_in_create_table_and_information_schema = OFF"])
        try:
            (row,) = both(mysql8, [(database, "t")], lake)
        finally:
            run(mysql8, ["SET GLOBAL show_gipk_in_create_table_and_information_schema = ON"])

        assert (row.comparison.missing, row.comparison.extra, row.comparison.different) == (0, 0, 0)


def test_a_lake_beyond_the_position_is_an_error(mysql8: Any, tmp_path: Path) -> None:
    """A batch applied after the snapshot cannot be told from a difference."""
    lake = Lake(tmp_path)
    with mysql8.database() as database:
        run(mysql8, [f"CREATE TABLE {database}.k (id INT PRIMARY KEY)"])
        later = Transaction(app_id("d", 1, f"{database}.k", 0), EntryPosition("bin.999999", 4).version())
        commit = CommitProperties(app_transactions=[later])
        write_deltalake(lake.path(database, "k"), pa.table({"id": pa.array([], pa.int32())}), commit_properties=commit)
        (row,) = verify(source(mysql8), [(database, "k")], lake, reader())
        assert row.differences == 1
        assert "is at journal 999999:4 already" in row.error


def test_a_table_that_the_source_has_not_is_an_error(mysql57: Any, tmp_path: Path) -> None:
    """Where the lake should have dropped it. One that is there and not captured is not reported, nor one that the lake
    drops when it comes to the statement: the source renamed it after it was listed, or just now."""
    lake = Lake(tmp_path)
    with mysql57.database() as database:
        run(mysql57, [f"CREATE TABLE {database}.k (id INT PRIMARY KEY)"])
        run(mysql57, [f"CREATE TABLE {database}.old (id INT PRIMARY KEY)"])
        none = pa.table({"id": pa.array([], pa.int32())})
        for name in ("k", "gone", "old"):
            write_deltalake(lake.path(database, name), none)
        asked: list[EntryPosition] = []

        def cursor() -> EntryPosition:
            """The lake is at the source's end at first. Then it is behind a RENAME, and follows that at once."""
            at = EntryPosition(*mysql57.position())
            if not asked:
                run(mysql57, [f"RENAME TABLE {database}.old TO {database}.new"])
            elif len(asked) == 1:
                properties = {DROPPED: "bin.000001:4"}
                lake.open(lake.path(database, "old")).alter.set_table_properties(properties, raise_if_not_exists=False)
                at = asked[0]
            asked.append(at)
            return at

        besides = [(database, "k"), (database, "gone"), (database, "old")]
        (row,) = compared(beside(mysql57, lake, Rest(cursor)), [], besides)
        assert (row.table, row.differences) == (f"{database}.gone", 1)
        assert "the source does not" in row.error
        assert len(asked) == 3


@pytest.mark.parametrize("columns", [("id", "gone"), ("gone", "further")])
def test_a_table_that_waits_for_its_first_row_has_no_definition_yet(
    mysql8: Any, tmp_path: Path, columns: tuple[str, ...]
) -> None:
    """A CREATE whose columns were not known empties the lake's table and leaves it the columns of before, of which the
    new one may have none."""
    lake = Lake(tmp_path)
    with mysql8.database("verify") as database:
        run(mysql8, [f"CREATE TABLE {database}.k (id INT PRIMARY KEY, fresh INT)"])
        old = pa.table({name: pa.array([], pa.int32()) for name in columns})
        write_deltalake(lake.path(database, "k"), old)
        (before,) = both(mysql8, [(database, "k")], lake)
        assert before.definition or "share no column" in before.error
        DeltaTable(lake.path(database, "k")).alter.set_table_properties({DROPPED: "4711"}, raise_if_not_exists=False)
        (waiting,) = both(mysql8, [(database, "k")], lake)
        assert (waiting.definition, waiting.differences) == ((), 0)
        run(mysql8, [f"INSERT INTO {database}.k VALUES (1, 2)"])
        (behind,) = both(mysql8, [(database, "k")], lake)
        assert behind.comparison == Comparison(1, 0, 1, 0, 0)


def test_a_lake_that_does_not_arrive_is_an_error(mysql8: Any, tmp_path: Path) -> None:
    """The wait ends, and the error says how far the client is."""
    behind = beside(mysql8, Lake(tmp_path), Rest(lambda: EntryPosition("bin.000001", 4)), 1)
    with mysql8.database() as database:
        run(mysql8, [f"CREATE TABLE {database}.k (id INT PRIMARY KEY)"])
        with pytest.raises(LakeError, match=r"has not reached .* acked to bin.000001:4"):
            list(compared(behind, [(database, "k")]))


def test_a_table_that_cannot_be_compared_leaves_the_others(mysql8: Any, tmp_path: Path) -> None:
    """A MERGE table without its parts, a discarded tablespace, a table that is not there: each says why."""
    lake = Lake(tmp_path)
    with mysql8.database() as database:
        run(
            mysql8,
            [
                f"CREATE TABLE {database}.merged (id INT) ENGINE=MERGE UNION=({database}.part)",
                f"CREATE TABLE {database}.gone (id INT PRIMARY KEY)",
                f"ALTER TABLE {database}.gone DISCARD TABLESPACE",
                f"CREATE TABLE {database}.fine (id INT PRIMARY KEY COMMENT 'the key', v INT) COMMENT 'fine'",
                f"INSERT INTO {database}.fine VALUES (1, 2)",
            ],
        )
        rows = pa.table({"v": pa.array([2], pa.int64()), "id": pa.array([1], pa.int32()), "old": ["x"]})
        write_deltalake(lake.path(database, "fine"), rows)
        names = ("merged", "gone", "nowhere", "fine")

        found = list(both(mysql8, [(database, name) for name in names], lake))

    *broken, fine = found
    assert [row.table for row in found] == [f"{database}.{name}" for name in names]
    assert [(row.differences, row.to_dict()["missing"]) for row in broken] == [(1, None)] * 3
    words = ["underlying table", "discarded", "does not exist"]
    assert [word for word, row in zip(words, broken, strict=True) if word in row.error.lower()] == words, broken
    assert fine.comparison == Comparison(1, 1, 0, 0, 0)
    assert fine.definition == (
        "the source has no column 'old'",
        "column 'id' has the comment '' in the lake, not 'the key'",
        "the columns are in another order in the lake: v, id",
        "the table has the comment '' in the lake, not 'fine'",
    )


@pytest.mark.parametrize("key", [["id"], []])
def test_negative_zero_is_not_zero(tmp_path: Path, key: list[str]) -> None:
    """Also where values are counted as copies."""
    for name, value in (("a", 0.0), ("b", -0.0)):
        write_deltalake(tmp_path / name, pa.table({"id": pa.array([1], pa.int32()), "d": [value]}))

    found = compare(DeltaTable(tmp_path / "a"), DeltaTable(tmp_path / "b"), ["id", "d"], key, "t")

    assert found == (Comparison(1, 1, 0, 0, 1) if key else Comparison(1, 1, 1, 1, 0))
    assert compare(*(DeltaTable(tmp_path / "a") for _ in "ab"), ["id", "d"], key, "t") == Comparison(1, 1, 0, 0, 0)


def test_a_key_with_zero_dates_is_the_same_on_both_sides(tmp_path: Path) -> None:
    """They are NULL there. Two keys may then be one, so rows are compared as copies."""
    days = pa.array([None, None, 1], pa.date32())
    for name, values in (("a", [1, 2, 3]), ("b", [2, 1, 3]), ("c", [2, 9, 3])):
        write_deltalake(tmp_path / name, pa.table({"day": days, "v": values}))
    a, b, c = (DeltaTable(tmp_path / name) for name in "abc")

    assert compare(a, b, ["day", "v"], ["day"], "t") == Comparison(3, 3, 0, 0, 0)
    assert compare(a, c, ["day", "v"], ["day"], "t") == Comparison(3, 3, 1, 1, 0)


def test_parts_count_what_the_whole_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing part by part gives the same result, with a key and without."""
    ids = pa.array(range(1000), pa.int32())
    names = ["id", "raw", "shape", "vector"]
    raw = pa.array([bytes([n % 256]) for n in range(1000)], pa.binary())
    shape = pa.array([{"srid": n % 2, "wkb": bytes([n % 7])} for n in range(1000)])
    vector = pa.array([[float(n), 0.5] for n in range(1000)], pa.list_(pa.float32()))
    rows = pa.table({"id": ids, "raw": raw, "shape": shape, "vector": vector})
    write_deltalake(tmp_path / "a", rows)
    write_deltalake(tmp_path / "b", rows.slice(10))
    both = DeltaTable(tmp_path / "a"), DeltaTable(tmp_path / "b")
    for key in (["id"], []):
        whole = compare(*both, names, key, "t")
        monkeypatch.setattr("tests.support.judge.compare._ROWS_AT_ONCE", 100)
        assert compare(*both, names, key, "t") == whole
        assert whole.missing == 10

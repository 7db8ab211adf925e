"""Groups of chunks from a real server into a staging table, without Spark: in parallel, resumed, and with errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_core.errors import LakeError, SchemaError, SourceError
from cdc_core.schema.information_schema import definition
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.tables import Lake
from spark_jobs.load import groups
from spark_jobs.load.files import StagedFile, staged_schema
from spark_jobs.load.groups import Reading, in_threads, stage_groups
from spark_jobs.load.staging import Groups, Staging
from spark_jobs.snapshot.chunk import Chunk
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.source import Source

pytestmark = pytest.mark.integration

ROWS, SIZE = 250, 20


@pytest.fixture
def table(mysql8: MySqlServer) -> object:
    """A table of 250 rows."""
    with mysql8.database() as database:
        rows = ", ".join(f"({number * 3}, 'row {number}')" for number in range(ROWS))
        mysql8.execute("CREATE TABLE t (id INT PRIMARY KEY, `a,b` VARCHAR(20))", database=database)
        mysql8.execute(f"INSERT INTO t VALUES {rows}", database=database)
        with mysql8.root() as connection:
            yield definition(connection, database, "t")


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(Lake(tmp_path / "lake"), "shop", "5f1c")


def reading(server: MySqlServer, schema: TableSchema) -> Reading:
    """Groups of three chunks, read by three connections."""
    source = Source(server.host, server.port, server.user, server.password)
    return Reading(source, schema, "fail", Limits(None, 3), SIZE)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "ROWS_PER_GROUP", 1)


def ids(staging: Staging) -> list[int]:
    found = staging.lake.open(staging.path).to_pyarrow_table(columns=["0", "1"]).to_pylist()
    assert all(row["1"] == f"row {row['0'] // 3}" for row in found)
    return sorted(row["0"] for row in found)


def until(count: int) -> Callable[[Groups], None]:
    """Ends the reading as a kill would, after so many groups."""

    def told(staged: Groups) -> None:
        if staged.count == count:
            raise KeyboardInterrupt

    return told


def test_all_rows_are_staged_in_groups(mysql8: MySqlServer, table: TableSchema, staging: Staging) -> None:
    """Each group is one commit, and is reported."""
    seen: list[Groups] = []
    staged = stage_groups(reading(mysql8, table), staging, seen.append, in_threads)

    assert ids(staging) == [number * 3 for number in range(ROWS)]
    assert [(one.count, one.chunks, one.rows) for one in seen] == [
        (0, 0, 0), (1, 3, 60), (2, 6, 120), (3, 9, 180), (4, 12, 240), (5, 13, 250),
    ]  # fmt: skip
    assert staged == seen[-1] == staging.staged()
    assert staged.whole
    assert staging.lake.open(staging.path).version() == 5
    staging.remove()
    assert staging.staged() == Groups()


def test_what_is_staged_is_not_read_again(
    mysql8: MySqlServer, table: TableSchema, staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed reading goes on after its last group, whatever happened to the rows before it."""
    with pytest.raises(KeyboardInterrupt):
        stage_groups(reading(mysql8, table), staging, until(2), in_threads)
    before = staging.staged()
    assert (before.count, before.last) == (2, Chunk(5, None, ("357",)))
    mysql8.execute(f"DELETE FROM {table.name} WHERE id <= 357", f"INSERT INTO {table.name} VALUES (358, 'row 119')")

    stage_groups(reading(mysql8, table), staging, lambda _: None, in_threads)

    assert ids(staging) == sorted([*(number * 3 for number in range(ROWS)), 358])
    stage_groups(reading(mysql8, table), staging, lambda _: None, in_threads)  # nothing is left
    assert staging.lake.open(staging.path).version() == 5


def test_an_empty_table_is_staged(mysql8: MySqlServer, table: TableSchema, staging: Staging) -> None:
    """As one chunk without rows."""
    mysql8.execute(f"TRUNCATE TABLE {table.name}")
    staged = stage_groups(reading(mysql8, table), staging, lambda _: None, in_threads)
    assert (staged.count, staged.chunks, staged.rows, staged.whole) == (1, 1, 0, True)
    assert staging.lake.open(staging.path).to_pyarrow_table().num_rows == 0


def test_keys_that_are_no_dates_are_staged(mysql8: MySqlServer, staging: Staging) -> None:
    """Zero and partial dates, which a session refuses to compare with unless it allows them."""
    dates = ["0000-00-00", "2023-00-01", "2023-02-31", *(f"2024-01-{day:02d}" for day in range(1, 32))]
    with mysql8.database() as database, mysql8.root(database) as root, root.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute("CREATE TABLE t (d DATE PRIMARY KEY)")
        cursor.execute(f"INSERT INTO t VALUES {', '.join(f'({one!r})' for one in dates)}")
        schema = definition(root, database, "t")
        assert schema is not None
        few = replace(reading(mysql8, schema), zero_dates="null", rows_per_chunk=2)
        stage_groups(few, staging, lambda _: None, in_threads)
    found = staging.lake.open(staging.path).to_pyarrow_table()["d"]
    assert (len(found), found.null_count) == (len(dates), 3)


def test_a_group_is_committed_once(mysql8: MySqlServer, table: TableSchema, staging: Staging) -> None:
    """Of two runs that read the same group, because one was thought dead, only the first one's rows count."""
    late = staging.table(staged_schema(table))
    with pytest.raises(KeyboardInterrupt):
        stage_groups(reading(mysql8, table), staging, until(1), in_threads)
    before = ids(staging)
    then, files = replace(staging.staged(), count=1), [StagedFile("late.parquet", 9, 60, "{}")]
    for opened in (late, staging.table(staged_schema(table))):
        with pytest.raises(LakeError, match="cannot be staged"):
            staging.commit(opened, files, then)
    assert ids(staging) == before


def test_errors_leave_the_groups_before_them(
    mysql8: MySqlServer, table: TableSchema, staging: Staging, tmp_path: Path
) -> None:
    """A column that is gone, a type that changed, a table that is gone, rows that may not be read, a lake that cannot
    be written: each says what and where."""
    good = reading(mysql8, table)
    with pytest.raises(KeyboardInterrupt):
        stage_groups(good, staging, until(1), in_threads)

    def refused(kind: type[Exception], match: str, into: Staging = staging) -> None:
        with pytest.raises(kind, match=match):
            stage_groups(good, into, lambda _: None, in_threads)

    mysql8.execute(f"ALTER TABLE {table.name} CHANGE `a,b` c VARCHAR(20)")
    refused(SourceError, "Unknown column")
    mysql8.execute(f"ALTER TABLE {table.name} DROP c, ADD `a,b` BIGINT")
    refused(SchemaError, "a,b")
    mysql8.execute(f"DROP TABLE {table.name}")
    refused(SourceError, "doesn't exist")
    assert staging.staged().count == 1
    (tmp_path / "file").write_text("")
    mysql8.execute(f"CREATE TABLE {table.name} (id INT PRIMARY KEY, `a,b` VARCHAR(20))")
    refused(LakeError, "cannot be staged", Staging(Lake(tmp_path / "file"), "shop", "5f1c"))
    bad = replace(good, source=replace(good.source, password="x"))
    with pytest.raises(SourceError, match="cannot connect"):
        stage_groups(bad, staging, lambda _: None, in_threads)

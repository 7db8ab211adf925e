"""A snapshot up to the switch, with a real server and service but without Spark: ended, refused, begun again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core import config
from cdc_core.contract.snapshot import FIRST_START, Snapshot
from cdc_core.errors import LakeError, SessionError, SourceError
from orchestration.first_rows import waiting
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.load import adopt as adopting
from spark_jobs.load import groups, registration
from spark_jobs.load import loader as loader_room
from spark_jobs.load.cutover import Cutover
from spark_jobs.load.load_snapshot import LoadSnapshot
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Broken, Copied, NoSuchTable
from spark_jobs.load.staging import StagedRows, Staging
from spark_jobs.snapshot.limits import Limits
from tests.support.plain_lake import PlainLake, rows_of
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration

SWITCHED = Cutover.table
ROWS = 400
NO_SPARK = "sc://127.0.0.1:1"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of two chunks; leases that end soon; the switch ends the snapshot, and leaves the lake as it is."""

    def switched(self: Cutover, snapshot: Snapshot, staged: StagedRows, **options: Any) -> Copied:
        options["check"]()
        self.connector.snapshots.close(snapshot)
        return Copied(staged.schema, staged.place, staged.rows, 0)

    monkeypatch.setattr(groups, "ROWS_PER_GROUP", 1)
    monkeypatch.setattr(registration, "LEASE_SECONDS", 4.0)
    monkeypatch.setattr(Cutover, "table", switched)


@pytest.fixture
def shop(mysql8: MySqlServer, tmp_path: Path) -> Iterator[Shop]:
    """With a table `t` of 400 rows."""
    with opened_shop(mysql8, NO_SPARK, tmp_path) as shop:
        rows = ", ".join(f"({number}, 'row {number}')" for number in range(ROWS))
        shop.execute("CREATE TABLE t (a INT PRIMARY KEY, v VARCHAR(20))", f"INSERT INTO t VALUES {rows}")
        yield shop


@pytest.fixture
def taken(shop: Shop, tmp_path: Path) -> Loader:
    instance, _ = config.load_instance(tmp_path / "conf", "shop")
    manner = Manner(30, Limits(connections=2), read_on="driver")
    return Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions, manner)


def at(chunks: int, then: Callable[[], object]) -> Callable[[Read], None]:
    """Does something when so many chunks are staged."""

    def told(read: Read) -> None:
        if read.chunks == chunks:
            then()

    return told


def killed() -> None:
    raise KeyboardInterrupt


def test_one_that_was_killed_goes_on_after_its_last_group(taken: Loader, shop: Shop) -> None:
    """With its first place in the binlog. The next begins at the first row, and at another place."""
    with pytest.raises(KeyboardInterrupt):
        taken.table(shop.database, "t", report=at(6, killed))
    (before,) = shop.connector.client_status().snapshots
    assert (before.progress.groups, before.progress.high) == (3, None)
    shop.execute("INSERT INTO t VALUES (-1, 'staged'), (900, 'not staged')")
    seen: list[Read] = []

    found = taken.table(shop.database, "t", report=seen.append)

    assert isinstance(found, Copied)
    assert (seen[0].chunks, seen[0].before, found.rows) == (6, 180, ROWS + 1)
    assert found.place.low == before.progress.low
    assert found.place.high > found.place.low
    assert shop.connector.client_status().snapshots == ()
    again = taken.table(shop.database, "t")
    assert isinstance(again, Copied)
    assert (again.rows, again.place.low) == (ROWS + 2, found.place.high)


def test_a_switch_killed_between_its_commit_and_the_properties_is_done_again(
    taken: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the lake's table is at the client's place, the commit has the number after it. The snapshot that is staged
    goes on, and no row is read again."""
    monkeypatch.setattr(Cutover, "table", SWITCHED)
    lake, path = shop.lake.lake, shop.lake.lake.path(shop.database, "t")
    PlainLake(shop.connector, lake).drain(1000)
    before = lake.state(path, app_id("shop", 1001, f"{shop.database}.t", 0))
    assert before is not None
    DeltaTable(path).delete("a < 100")
    with monkeypatch.context() as patch:
        patch.setattr(adopting, "_set_properties", lambda _: killed())
        with pytest.raises(KeyboardInterrupt):
            taken.table(shop.database, "t")
    (opened,) = shop.connector.client_status().snapshots
    half = lake.state(path, app_id("shop", 1001, f"{shop.database}.t", 0))
    assert half is not None
    assert (half.applied, half.copied) == (before.applied, None)
    seen: list[Read] = []

    found = taken.table(shop.database, "t", report=seen.append)

    assert isinstance(found, Copied)
    assert (found.rows, found.place.low, [one.before for one in seen[:1]]) == (ROWS, opened.progress.low, [ROWS])
    assert len(rows_of(lake, path)) == ROWS
    assert shop.connector.client_status().snapshots == ()


def test_two_at_once_are_refused(taken: Loader, shop: Shop) -> None:
    """The second waits for the end of a lease, which the first renews. One that is cancelled ends."""
    name = f"{shop.database}.t"

    def twice() -> None:
        with pytest.raises(SessionError, match=r"reads .* already") as caught:
            taken.table(shop.database, "t")
        assert "--cancel" in caught.value.hint
        assert taken.cancel(name)

    with pytest.raises(SessionError, match="was cancelled"):
        taken.table(shop.database, "t", report=at(4, twice))
    assert not taken.cancel(name)


def test_a_table_that_changes_meanwhile_is_read_once_more(taken: Loader, shop: Shop) -> None:
    """With its new definition; the second time it is an error. It stays open as a broken one, so that whoever looks for
    tables to be read finds it, and the next one begins again."""
    numbers = iter(range(9))

    def at_once(seconds: float) -> None:
        """The source is at rest when a reading begins; leases end in their time."""
        time.sleep(seconds if seconds >= registration.LEASE_SECONDS else 0)

    def altered() -> None:
        shop.execute(f"ALTER TABLE t ADD c{next(numbers)} INT")

    with pytest.raises(Broken, match="altered"):
        taken.table(shop.database, "t", report=at(2, altered), sleep=at_once)
    (left,) = shop.connector.client_status().snapshots
    assert "altered" in left.broken
    assert not any(one.is_file() for one in Path(Staging(taken.lake, "shop", left.id).path).rglob("*"))
    once = iter([altered])
    found = taken.table(shop.database, "t", report=at(2, lambda: [alter() for alter in once]), sleep=at_once)
    assert isinstance(found, Copied)
    assert {"c0", "c1", "c2"} <= {column.name for column in found.schema.columns}
    dropped = taken.table(shop.database, "t", report=at(2, lambda: shop.execute("DROP TABLE t")), sleep=at_once)
    assert isinstance(dropped, NoSuchTable)


def test_what_a_copy_left_that_was_killed_is_gone_on_with(
    taken: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are staged, and its snapshot is open: whoever goes on with it reads each row once. A copy that fails
    leaves neither."""
    with monkeypatch.context() as patched:
        patched.setattr(LoadSnapshot, "_give_up", lambda *_, **__: None)
        patched.setattr(Cutover, "table", lambda *_, **__: killed())
        with pytest.raises(KeyboardInterrupt):
            taken.copy(shop.database, "t")
    (left,) = shop.connector.client_status().snapshots
    shop.execute("INSERT INTO t VALUES (-1, 'staged already')")
    ids: list[int] = []

    def look(read: Read) -> None:
        rows = DeltaTable(Staging(taken.lake, "shop", left.id).path).to_pyarrow_table() if read.chunks else None
        ids[:] = rows.column("a").to_pylist() if rows else []

    found = taken.table(shop.database, "t", report=look)
    assert isinstance(found, Copied)
    assert (found.rows, sorted(ids)) == (ROWS, list(range(ROWS)))
    left_there = sorted(Path(taken.lake.root).rglob("*.parquet"))
    with pytest.raises(KeyboardInterrupt):
        taken.copy(shop.database, "t", report=at(2, killed))
    assert shop.connector.client_status().snapshots == ()
    assert sorted(Path(taken.lake.root).rglob("*.parquet")) == left_there


def test_a_copy_that_fails_leaves_what_it_took_over(taken: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first snapshot that waits still does, broken where its rows are of no use, and the table stays stopped. A copy
    that succeeds ends it."""
    name = f"{shop.database}.t"

    def refused() -> None:
        raise LakeError("the disk is full", place="t", hint="")

    def altered() -> None:
        raise Broken("the table was altered", place="t", hint="")

    shop.connector.snapshots.open(name, owner=FIRST_START, first=True, lease_seconds=0.1)
    with pytest.raises(LakeError, match="full"):
        taken.copy(shop.database, "t", report=at(2, refused))
    assert waiting(shop.connector.client_status(), time.time() + 60, complete=False) == [name]
    with monkeypatch.context() as patched:
        patched.setattr(loader_room._TableLoad, "while_held", lambda _: killed())
        with pytest.raises(KeyboardInterrupt):
            taken.copy(shop.database, "t", report=at(2, altered))
    (left,) = shop.connector.client_status().snapshots
    assert left.broken == "the table was altered"
    assert waiting(shop.connector.client_status(), time.time() + 60, complete=False) == [name]
    assert isinstance(taken.copy(shop.database, "t"), Copied)
    assert shop.connector.client_status().snapshots == ()


def test_rows_of_an_earlier_versions_copy_are_read_again(taken: Loader, shop: Shop) -> None:
    """It staged them in one commit, under numbers and without a group. Whoever takes its snapshot over has each row
    once."""
    left = shop.connector.snapshots.open(f"{shop.database}.t", owner="copy-1", lease_seconds=0.1)
    staging = Staging(taken.lake, "shop", left.id)
    write_deltalake(staging.path, pa.table({"0": pa.array([0, 1, 2], pa.int32()), "1": ["a", "b", "c"]}))
    ids: list[int] = []

    def look(read: Read) -> None:
        ids[:] = DeltaTable(staging.path).to_pyarrow_table().column(0).to_pylist() if read.chunks else []

    found = taken.copy(shop.database, "t", report=look)
    assert isinstance(found, Copied)
    assert (found.rows, sorted(ids)) == (ROWS, list(range(ROWS)))


def test_a_killed_reader_of_images_without_columns_leaves_it_open(
    taken: Loader, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table stays among those that wait to be read. When it was read nothing is left open."""
    name, copied = f"{shop.database}.t", iter([killed, lambda: None])
    monkeypatch.setattr(loader_room, "whole_images", lambda _: False)
    monkeypatch.setattr(loader_room._TableLoad, "while_held", lambda _: next(copied)())
    shop.connector.snapshots.open(name, owner="the first start", first=True, lease_seconds=0.1)
    with pytest.raises(KeyboardInterrupt):
        taken.table(shop.database, "t")
    assert waiting(shop.connector.client_status(), time.time() + 60, complete=False) == [name]
    taken.table(shop.database, "t")
    assert shop.connector.client_status().snapshots == ()


def test_a_table_without_a_key_has_an_exact_place(taken: Loader, shop: Shop) -> None:
    """It is read in one view, at rest or under a short lock, and not resumed."""
    shop.execute("CREATE TABLE copies AS SELECT v FROM t", "INSERT INTO copies SELECT v FROM t")
    with pytest.raises(KeyboardInterrupt):
        taken.table(shop.database, "copies", report=lambda _: killed())
    found = taken.table(shop.database, "copies")
    assert isinstance(found, Copied)
    assert (found.rows, found.place.exact) == (2 * ROWS, True)


def test_what_cannot_be_read_or_written_is_reported(taken: Loader, shop: Shop, tmp_path: Path) -> None:
    """A table that the account may not read, a lake that cannot be written. The snapshot of the first stays open, so
    that it goes on when the privilege is there."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(LakeError, match="cannot be written"):
        replace(taken, lake=Lake(blocked)).table(shop.database, "t")
    assert shop.connector.client_status().snapshots == ()
    mysql = shop.mysql
    mysql.execute(
        f"CREATE USER 'weak'@'%' IDENTIFIED BY '{mysql.password}'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'weak'@'%'",
        f"GRANT SELECT (a), INSERT ON {shop.database}.t TO 'weak'@'%'",
    )
    try:
        weak = replace(taken, instance=taken.instance.model_copy(update={"user": "weak"}))
        with pytest.raises(SourceError, match="may not be read") as caught:
            weak.table(shop.database, "t")
        assert "GRANT SELECT" in caught.value.hint
    finally:
        mysql.execute("DROP USER 'weak'@'%'")
    taken.cancel(f"{shop.database}.t")


@pytest.mark.parametrize("name", ["mysql8", "mysql57", "mariadb"])
def test_what_is_no_table_or_is_damaged_is_reported(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A view, a table that the account may not see, and one whose parts are gone are errors of their own. Empty tables
    and tables of one row are read."""
    mysql: MySqlServer = request.getfixturevalue(name)
    with opened_shop(mysql, NO_SPARK, tmp_path) as shop, account(mysql, shop.database) as weak:
        shop.execute(
            "CREATE TABLE t (a INT PRIMARY KEY)",
            "CREATE VIEW shown AS SELECT * FROM t",
            "CREATE TABLE part (a INT) ENGINE = MyISAM",
            "CREATE TABLE parts (a INT) ENGINE = MERGE UNION = (part)",
            "DROP TABLE part",
            "CREATE TABLE one (a INT PRIMARY KEY)",
            "INSERT INTO one (a) VALUES (1)",
            "CREATE TABLE listed (a INT NOT NULL) ENGINE = CSV",
        )
        instance, _ = config.load_instance(tmp_path / "conf", "shop")
        manner = Manner(read_on="driver")
        taken = Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions, manner)
        for table, message in (("shown", "a view, not a table"), ("parts", r"may not be read \(1168\).*CHECK TABLE")):
            with pytest.raises(SourceError, match=message):
                taken.table(shop.database, table)
        taken.cancel(f"{shop.database}.parts")
        with pytest.raises(SourceError, match="GRANT SELECT"):
            replace(taken, instance=instance.model_copy(update={"user": weak})).table(shop.database, "t")
        assert isinstance(taken.table(shop.database, "nowhere"), NoSuchTable)
        found = [taken.table(shop.database, table) for table in ("t", "one", "listed")]
        assert [one.rows for one in found if isinstance(one, Copied)] == [0, 1, 0]
        assert shop.connector.client_status().snapshots == ()


@contextmanager
def account(mysql: MySqlServer, database: str) -> Iterator[str]:
    """An account that may see nothing of the database."""
    name = f"weak_{database[-8:]}"
    mysql.execute(
        f"CREATE USER '{name}'@'%' IDENTIFIED BY '{mysql.password}'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{name}'@'%'",
    )
    try:
        yield name
    finally:
        mysql.execute(f"DROP USER '{name}'@'%'")

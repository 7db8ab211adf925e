"""Loads of tables that wait for a person's consent, at a real service and without Spark: which of them end the stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from cdc_core import config
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import SourceChanged
from orchestration.first_rows import waiting
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.consent import EXCEPTION, PROPOSAL, REJECTED, NotConsented
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.policies import Changed, Policies, TablePolicy
from spark_jobs.lake.record import DROPPED
from spark_jobs.load import registration
from spark_jobs.load.gone import GONE
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied, NoSuchTable
from spark_jobs.session import Sessions
from tests.support.plain_lake import NoSpark, replacing, rows_of
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration
NO_SPARK = "sc://127.0.0.1:1"
ALTER = "ALTER TABLE t ADD secret INT DEFAULT 7"


@pytest.fixture
def shop(mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """With a table `t` in the lake, whose policy is `ask`."""
    monkeypatch.setattr(registration, "LEASE_SECONDS", 4.0)
    with opened_shop(mysql8, NO_SPARK, tmp_path) as shop, replacing():
        ruled(shop, Changed.ASK)
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        assert shop.drain() == []
        at = shop.connector.client_status().cursor
        shop.connector.stop_table(f"{shop.database}.t", reason="test", hint="", position=at)  # its rows need no Spark
        shop.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
        assert shop.drain() == []
        assert isinstance(loader(shop, tmp_path).copy(shop.database, "t"), Copied)
        yield shop


def ruled(shop: Shop, changed: Changed) -> None:
    shop.lake = replace(shop.lake, policies=Policies(TablePolicy(changed=changed)))


def loader(shop: Shop, tmp_path: Path) -> Loader:
    instance, _ = config.load_instance(tmp_path / "conf", "shop")
    return Loader(shop.connector, instance, shop.lake.lake, cast(Sessions, NoSpark()), Manner(read_on="driver"))


def columns(shop: Shop) -> list[str]:
    state = shop.lake.lake.state(shop.lake.lake.path(shop.database, "t"), "")
    assert state is not None
    return [column.name for column in state.columns]


def stop_of(shop: Shop) -> StoppedTable:
    (stop,) = shop.connector.client_status().stopped
    return stop


def once(then: Callable[[], object]) -> Callable[[Read], None]:
    """Does something when the first chunk is staged, for the first time."""
    left = [then]

    def told(read: Read) -> None:
        if read.chunks and left:
            left.pop()()

    return told


def altered(shop: Shop, reason: str) -> None:
    """A change stops the table, and is rejected if that is the reason."""
    shop.execute(ALTER)
    assert shop.drain() == [f"{shop.database}.t"]
    if reason is REJECTED:
        stop = stop_of(shop)
        told = {"reason": f"{REJECTED}: {ALTER}", "hint": "It stays as it was before.", "copy_needed": True}
        shop.connector.stop_table(stop.table, position=stop.position, **told)  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", [PROPOSAL, EXCEPTION, REJECTED])
@pytest.mark.parametrize("way", [Loader.table, Loader.copy])
def test_a_load_that_began_before_the_stop_does_not_end_it(
    shop: Shop, tmp_path: Path, way: Callable[..., object], reason: str
) -> None:
    """The error says what waits, the snapshot is over and the lake is as it was. A person's load after it ends it."""
    ruled(shop, Changed.EXCEPTION if reason is EXCEPTION else Changed.ASK)
    with pytest.raises(NotConsented, match=f"{reason}.*ADD secret INT"):
        way(loader(shop, tmp_path), shop.database, "t", report=once(lambda: altered(shop, reason)))
    assert stop_of(shop).reason.startswith(reason)
    assert shop.connector.client_status().snapshots == ()
    assert columns(shop) == ["id", "v"]

    assert isinstance(way(loader(shop, tmp_path), shop.database, "t"), Copied)
    status = shop.connector.client_status()
    assert (status.stopped, status.snapshots) == ((), ())
    assert columns(shop) == ["id", "v", "secret"]
    assert sorted(rows_of(shop.lake.lake, shop.lake.lake.path(shop.database, "t"))) == [(1, 1, 7), (2, 2, 7)]


def test_small_tables_that_wait_are_left(shop: Shop, tmp_path: Path) -> None:
    """Many at a time as well, when the stop comes after the order was given."""
    begun, name = loader(shop, tmp_path).begun(), f"{shop.database}.t"
    altered(shop, PROPOSAL)
    (loading,) = begun.tables([name])
    with pytest.raises(NotConsented, match=PROPOSAL):
        loading.outcome()
    assert stop_of(shop).reason.startswith(PROPOSAL)
    assert shop.connector.client_status().snapshots == ()
    assert columns(shop) == ["id", "v"]
    (loading,) = loader(shop, tmp_path).tables([name])
    assert isinstance(loading.outcome(), Copied)
    assert shop.connector.client_status().stopped == ()


def test_a_load_that_begins_by_itself_has_no_consent(shop: Shop, tmp_path: Path) -> None:
    """Also if the table stopped before it began. It ends the snapshot that a job left, whose rows are of no use."""
    job = replace(loader(shop, tmp_path), run_id="run", consents={})

    def die() -> None:
        altered(shop, PROPOSAL)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.table(shop.database, "t", report=once(die))
    assert [bool(one.broken) for one in shop.connector.client_status().snapshots] == [True]
    with pytest.raises(NotConsented):
        job.table(shop.database, "t")
    assert shop.connector.client_status().snapshots == ()
    assert stop_of(shop).reason.startswith(PROPOSAL)


def test_the_last_try_says_what_waits(shop: Shop, tmp_path: Path) -> None:
    """The first one was broken by something else."""
    broken = list[str]()

    def twice(read: Read) -> None:
        if read.chunks and not broken:
            (one,) = shop.connector.client_status().snapshots
            broken.append(one.id)
            shop.connector.snapshots.break_off(one.table, one.id, "test")
        elif read.chunks and not shop.connector.client_status().stopped:
            altered(shop, PROPOSAL)

    with pytest.raises(NotConsented):
        loader(shop, tmp_path).table(shop.database, "t", report=twice)
    assert shop.connector.client_status().snapshots == ()
    assert columns(shop) == ["id", "v"]


@pytest.mark.parametrize("way", [Loader.table, Loader.copy])
def test_a_stopped_table_that_is_gone_waits_for_approval(
    shop: Shop, tmp_path: Path, way: Callable[..., object]
) -> None:
    """Its DROP is not followed, so the sensor would read it for ever. Approved, it is marked as dropped, and its rows
    stay; a table of that name is another one."""
    name, taken = f"{shop.database}.t", loader(shop, tmp_path)
    at = shop.connector.client_status().cursor
    assert at is not None
    shop.connector.stop_table(name, reason="total does not fit", hint="", position=at, copy_needed=True)
    shop.execute("INSERT INTO t VALUES (3, 3)", "DROP TABLE t")
    assert shop.drain() == []
    assert waiting(shop.connector.client_status(), 1.0, complete=True) == [name]

    assert isinstance(way(taken, shop.database, "t"), NoSuchTable)
    stop = stop_of(shop)
    assert stop.reason == f"{PROPOSAL}: {GONE}, which had stopped before: total does not fit"
    assert f"sluice ddl approve shop {name}" in stop.hint
    assert (stop.copy_needed, stop.passed is not None) == (True, True)
    assert waiting(shop.connector.client_status(), 1.0, complete=True) == []
    assert isinstance(way(taken, shop.database, "t"), NoSuchTable)
    assert stop_of(shop) == stop

    place = taken.drop(name)
    path = shop.lake.lake.path(shop.database, "t")
    state = shop.lake.lake.state(path, "")
    assert state is not None
    assert (state.properties[DROPPED], len(rows_of(shop.lake.lake, path))) == (str(place), 2)
    assert shop.connector.client_status().stopped == ()


def test_a_drop_that_was_an_exception_can_be_approved(shop: Shop, tmp_path: Path) -> None:
    """A person's copy finds that there is nothing to copy. A rejected one stays rejected."""
    ruled(shop, Changed.EXCEPTION)
    shop.execute("DROP TABLE t")
    assert shop.drain() == [f"{shop.database}.t"]
    stop = stop_of(shop)
    assert stop.reason.startswith(EXCEPTION)
    assert isinstance(loader(shop, tmp_path).copy(shop.database, "t"), NoSuchTable)
    assert stop_of(shop).reason.startswith(f"{PROPOSAL}: {GONE}")
    assert stop.position is not None
    shop.connector.stop_table(stop.table, reason=f"{REJECTED}: DROP", hint="", position=stop.position)
    assert isinstance(loader(shop, tmp_path).copy(shop.database, "t"), NoSuchTable)
    assert stop_of(shop).reason == f"{REJECTED}: DROP"


def test_what_was_before_an_approved_drop_changes_nothing(shop: Shop, tmp_path: Path) -> None:
    """Rows, and the DROP itself, that no run had applied by then: they are of the table that is gone."""
    name, at = f"{shop.database}.t", shop.connector.client_status().cursor
    assert at is not None
    shop.connector.stop_table(name, reason="total does not fit", hint="", position=at)
    shop.execute("INSERT INTO t VALUES (3, 3)", "DROP TABLE t")
    shop.read()
    assert isinstance(loader(shop, tmp_path).copy(shop.database, "t"), NoSuchTable)
    loader(shop, tmp_path).drop(name)
    shop.lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions))
    assert shop.drain() == [], shop.connector.client_status().stopped
    assert shop.connector.client_status().stopped == ()
    assert len(rows_of(shop.lake.lake, shop.lake.lake.path(shop.database, "t"))) == 2


def test_a_table_that_is_there_is_not_dropped(shop: Shop, tmp_path: Path) -> None:
    """It was made again before the approval."""
    altered(shop, PROPOSAL)
    with pytest.raises(SourceChanged, match="the source has the table again"):
        loader(shop, tmp_path).drop(f"{shop.database}.t")
    assert stop_of(shop).reason.startswith(PROPOSAL)

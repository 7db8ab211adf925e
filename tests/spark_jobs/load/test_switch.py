"""Tables read while others write and drain, then switched, by the real parts: MySQL, the service, Spark, Delta."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_core.client.connector import Connector
from cdc_core.client.snapshot_calls import SnapshotCalls
from cdc_core.contract.snapshot import Snapshot
from cdc_core.errors import LakeError
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply import batch as applying
from spark_jobs.load import switch as switching
from spark_jobs.load.staging import StagedRows
from tests.support.shop import Shop, opened_shop
from tests.support.snapshot_trial import SnapshotTrial

pytestmark = [pytest.mark.integration, pytest.mark.full]
TABLES = ("keyed", "halted", "fresh", "copies")
SAME = dict.fromkeys(TABLES, (0, 0, 0))


def prepared(shop: Shop, last: str = "w,") -> None:
    """In the lake, `keyed` and `copies` have lost rows, `halted` is stopped, and `fresh` is not there. `last` is the
    name of the last column of `halted`: Parquet cannot hold a comma, so that Spark writes the rows."""
    for table in TABLES:
        key, name = "" if table == "copies" else " PRIMARY KEY", last if table == "halted" else "w"
        shop.execute(f"CREATE TABLE {table} (id INT{key}, v DOUBLE, `{name}` VARCHAR(9))")
        rows = ", ".join(f"({number}, {number / 2}, 'w{number}')" for number in range(60))
        shop.execute(f"INSERT INTO {table} VALUES {rows}")
    assert shop.drain() == []
    for table in ("keyed", "copies"):
        DeltaTable(shop.lake.lake.path(shop.database, table)).delete("id % 3 = 0")
    shutil.rmtree(shop.lake.lake.path(shop.database, "fresh"))
    at = shop.connector.client_status().cursor
    assert at is not None
    name = f"{shop.database}.halted"
    shop.connector.stop_table(name, reason="test", hint="Copy it.", position=at, copy_needed=True)


def write(shop: Shop, chosen: random.Random, table: str, count: int = 12) -> None:
    """Random DML: inserts, updates, deletes, keys that change, rows that come again, both zeros and NULL."""
    keyed = table != "copies"
    statements = []
    for _ in range(count):
        here, there = chosen.randrange(80), chosen.randrange(80, 99)
        value = chosen.choice(("0e0", "-0e0", "NULL", str(here)))
        statements += chosen.choice(
            (
                [f"{'REPLACE' if keyed else 'INSERT'} INTO {table} VALUES ({here}, {value}, 'n')"],
                [f"UPDATE {table} SET v = {value} WHERE id = {here}"],
                [f"DELETE FROM {table} WHERE id = {here}"],
                [f"DELETE FROM {table} WHERE id = {there}", f"UPDATE {table} SET id = {there} WHERE id = {here}"],
            )
        )
    shop.execute(*statements)


def read(trial: SnapshotTrial, snapshot: Snapshot, between: Callable[[], None]) -> StagedRows:
    return (trial.at_once if trial.table == "copies" else trial.in_two_parts)(snapshot, between)


@pytest.mark.in_turn
def test_tables_are_exact_after_the_switch(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """A live table with a key and one without, a stopped one and one that the lake does not have, written before, while
    and after they are read. The client is before their places, between them and after them."""
    chosen = random.Random(3)
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        prepared(shop)
        for drains in (False, True):
            for table in TABLES:
                trial = SnapshotTrial(shop, table, first=table == "fresh")
                write(shop, chosen, table)
                snapshot = trial.open()

                def between(table: str = table, drains: bool = drains) -> None:
                    write(shop, chosen, table)
                    if drains:
                        shop.drain()
                    write(shop, chosen, table)

                staged = read(trial, snapshot, between)
                write(shop, chosen, table)
                if drains and table != "keyed":  # of `keyed` the client is between the two places
                    shop.drain()
                trial.cutover().table(snapshot, staged, sleep=lambda _: None)
                write(shop, chosen, table)
            assert shop.drain() == []
            assert shop.differences(*TABLES) == SAME
        status = shop.connector.client_status()
        assert (status.stopped, status.snapshots, shop.warnings) == ((), (), [])
        assert not [one for one in (tmp_path / "lake/_sluice/shop/staging").rglob("*") if one.is_file()]


def killed(monkeypatch: pytest.MonkeyPatch, where: Any, what: str, work: Callable[[], Any]) -> None:
    """Does the work up to that step."""

    def die(*_: Any, **__: Any) -> None:
        raise LakeError("killed", hint="")

    with monkeypatch.context() as patched:
        patched.setattr(where, what, die)
        with pytest.raises(LakeError, match="killed"):
            work()


@pytest.mark.in_turn(2)
@pytest.mark.parametrize(("last", "commit"), [("w", "adopt"), ("w,", "replace")])
def test_a_switch_that_is_killed_is_done_again(
    last: str, commit: str, mysql8: MySqlServer, spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after the commit, which takes the staged files or is Spark's, before the stop is lifted and before
    the snapshot is closed; a run is killed before its merge as well. Another owner goes on each time, while others
    write and drain."""
    chosen = random.Random(5)
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        prepared(shop, last)
        trial = SnapshotTrial(shop, "halted", lease=0.01)
        snapshot = trial.open("0")
        staged = read(trial, snapshot, lambda: write(shop, chosen, "halted"))
        steps = (
            (switching, commit),
            (switching.Target, "committed"),
            (Connector, "lift_stop"),
            (SnapshotCalls, "close"),
        )
        for number, (where, what) in enumerate(steps):
            write(shop, chosen, "halted")
            killed(monkeypatch, applying, ("keep", "broken_otherwise")[number % 2], shop.drain)
            shop.drain(batch_size=3)
            write(shop, chosen, "halted")
            killed(monkeypatch, where, what, partial(trial.cutover().table, snapshot, staged))
            write(shop, chosen, "halted")
            if number % 2:
                shop.drain()
            again = trial.open(str(number + 1))
            assert again.id == snapshot.id
            snapshot = again
        trial.cutover().table(snapshot, staged)
        assert shop.drain() == []
        assert shop.differences("halted") == {"halted": (0, 0, 0)}
        assert shop.connector.client_status().stopped == ()

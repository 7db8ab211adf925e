"""The job that decides on a statement that waits, without a source: what it does and what the asset's history has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc_core.client.connector import Connector
from cdc_core.doors.http import HttpDoor
from cdc_core.position import EntryPosition
from cdc_core.schema.table import Column, TableSchema
from orchestration.verbs.orders import Ddl
from spark_jobs.lake.consent import PROPOSAL
from spark_jobs.load.loader import Loader
from spark_jobs.load.result import Copied, NoSuchTable
from spark_jobs.snapshot.place import SnapshotPlace
from tests.support.door_double import Destination, Server, opened
from tests.support.jobs import executed, write_conf

AT = EntryPosition("mysql-bin.000001", 4)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is reloaded."""
    found: list[str] = []

    def table(_: Loader, database: str, name: str, **__: Any) -> Copied:
        found.append(f"{database}.{name}")
        return Copied(TableSchema("shop", "orders", (Column("id", 3, 0),), ("id",)), SnapshotPlace(AT, AT), 7, 3)

    monkeypatch.setattr(Loader, "copy", table)
    return found


def test_what_waits_is_decided_once(made: list[str], tmp_path: Path) -> None:
    """Approved, the table is reloaded; rejected, its stop says so. Its asset's history has both."""
    conf, order = write_conf(tmp_path / "conf"), {"tables": ["shop.orders"], "reason": "agreed"}
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door, Connector(door.url, "shop") as connector:
        early = executed(Ddl, door.url, conf, decision="approve", **order)
        connector.stop_table("shop.orders", reason=f"{PROPOSAL}: DROP TABLE orders", hint="", position=AT)
        approved = executed(Ddl, door.url, conf, decision="approve", **order)
        rejected = executed(Ddl, door.url, conf, decision="reject", **order)
        (stop,) = connector.client_status().stopped
        late = executed(Ddl, door.url, conf, decision="approve", **order)

    assert [one.success for one in (early, approved, rejected, late)] == [False, True, True, False]
    assert made == ["shop.orders"]
    assert stop.reason == "a change was rejected (agreed): DROP TABLE orders"
    for run, action in ((approved, "approve"), (rejected, "reject")):
        asset, told = run.history[1]
        assert (asset, told["action"], told["outcome"]) == ("delta/shop/shop/orders", action, "done")
        assert (told["reason"], told["statement"]) == ("agreed", "DROP TABLE orders")
    assert approved.history[2][1]["rows"] == 7


def test_each_table_is_decided_by_its_stop_of_that_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first one is reloaded, somebody rejects the statement of the second: it is not reloaded."""
    conf, tables, made = write_conf(tmp_path / "conf"), ["shop.orders", "shop.users"], list[str]()
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door, Connector(door.url, "shop") as connector:

        def copied(_: Loader, database: str, name: str, **__: Any) -> Copied:
            made.append(name)
            connector.stop_table("shop.users", reason="a change was rejected: DROP TABLE users", hint="", position=AT)
            return Copied(TableSchema(database, name, (Column("id", 3, 0),), ("id",)), SnapshotPlace(AT, AT), 7, 3)

        monkeypatch.setattr(Loader, "copy", copied)
        for table in tables:
            connector.stop_table(table, reason=f"{PROPOSAL}: DROP TABLE x", hint="", position=AT)
        done = executed(Ddl, door.url, conf, decision="approve", tables=tables, reason="agreed")
    assert made == ["orders"]
    assert "1 of 2 tables failed: shop.users" in done.failure
    assert "no statement of shop.users waits" in done.failure


def test_the_drop_of_a_table_is_approved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to copy: the lake's table is marked, and its rows stay."""
    conf, dropped = write_conf(tmp_path / "conf"), list[str]()

    def drop(_: Loader, name: str) -> EntryPosition:
        dropped.append(name)
        return AT

    monkeypatch.setattr(Loader, "copy", lambda *_, **__: NoSuchTable("shop", "orders", SnapshotPlace(AT, AT)))
    monkeypatch.setattr(Loader, "drop", drop)
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door, Connector(door.url, "shop") as connector:
        connector.stop_table("shop.orders", reason=f"{PROPOSAL}: DROP TABLE orders", hint="", position=AT)
        done = executed(Ddl, door.url, conf, decision="approve", tables=["shop.orders"], reason="agreed")
    assert done.success
    assert dropped == ["shop.orders"]
    _, told = done.history[-1]
    assert (told["action"], told["outcome"], told["dropped"]) == ("approve", "done", True)

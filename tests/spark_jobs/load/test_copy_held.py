"""What surrounds a copy at a real service: the claim that is held, the checks, the stop that is lifted. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc_core import config
from cdc_core.contract.snapshot import FIRST_START
from cdc_core.errors import SluiceError, SourceChanged
from cdc_core.position import EntryPosition
from cdc_core.schema.table import Column, TableSchema
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load import loader as module
from spark_jobs.load.loader import Loader
from spark_jobs.load.result import Broken, Copied, WentOn
from spark_jobs.snapshot.chunks import UnorderedKey
from spark_jobs.snapshot.place import SnapshotPlace
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration
NOWHERE = "sc://127.0.0.1:1"


def copying(monkeypatch: pytest.MonkeyPatch, shop: Shop, *steps: Callable[[], None]) -> list[EntryPosition]:
    """In the place of `copy_table`: each try does a step, and confirms it."""
    places: list[EntryPosition] = []

    def copy(*_: Any, confirm: Callable[[], None], **__: Any) -> Copied:
        place = EntryPosition(*shop.mysql.position())
        places.append(place)
        steps[len(places) - 1]()
        confirm()
        return Copied(TableSchema(shop.database, "t", (Column("id", 3, 0),)), SnapshotPlace(place, place), 1, 1)

    monkeypatch.setattr(module, "copy_table", copy)
    return places


def test_a_claim_is_held_and_the_stop_is_lifted(
    mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody gets a claim while the table is copied. A copy that lost to a run is tried again. Afterwards the stop is
    gone, and the changes are claimed with the table."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        shop.read()
        at, name = EntryPosition(*mysql8.position()), f"{shop.database}.t"
        shop.connector.stop_table(name, reason="damaged", hint="Copy it.", position=at, copy_needed=True)

        def others_wait() -> None:
            assert shop.connector.get_without_ack(10, owner="other", timeout_seconds=1.0) is None

        def lose() -> None:
            others_wait()
            raise WentOn("t")

        tries = copying(monkeypatch, shop, lose, others_wait)
        instance, _ = config.load_instance(tmp_path / "conf", "shop")
        found = Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions).copy(
            shop.database, "t", held=True, sleep=lambda _: None
        )

        assert isinstance(found, Copied)
        assert len(tries) == 2
        assert shop.connector.client_status().stopped == ()
        claim = shop.claim(10, owner="other")
        assert claim.stopped == ()


@pytest.mark.parametrize(("kind", "tries"), [(Broken, 2), (UnorderedKey, 1)])
def test_a_copy_that_cannot_be_read_while_the_stream_goes_on_holds_a_claim(
    kind: type[SluiceError], tries: int, mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Foreign keys change rows of the table without the binlog, for instance: then nothing is handed out meanwhile. A
    key that bounds no chunks does not at the second try either."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        shop.read()
        failed: list[str] = []

        def online(load: module._TableLoad) -> Copied:
            failed.append(load.table)
            raise kind("it cannot be read", place=load.table, hint="")

        monkeypatch.setattr(module._TableLoad, "online", online)
        held = copying(monkeypatch, shop, lambda: None)
        instance, _ = config.load_instance(tmp_path / "conf", "shop")
        found = Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions).copy(shop.database, "t")
        assert isinstance(found, Copied)
        assert (failed, len(held)) == (["t"] * tries, 1)


def test_a_first_snapshot_that_nobody_has_taken_ends_with_the_copy(
    mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is in the lake. One that somebody reads goes on."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        shop.read()
        snapshots, name = shop.connector.snapshots, f"{shop.database}.t"
        snapshots.open(name, owner="job-1", first=True, lease_seconds=60)
        copying(monkeypatch, shop, lambda: None, lambda: None)
        instance, _ = config.load_instance(tmp_path / "conf", "shop")
        loader = Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions)
        loader.copy(shop.database, "t", held=True)
        assert [one.owner for one in shop.connector.client_status().snapshots] == ["job-1"]
        snapshots.cancel(name)
        snapshots.open(name, owner=FIRST_START, first=True, lease_seconds=1)
        loader.copy(shop.database, "t", held=True)
        status = shop.connector.client_status()
        assert (status.snapshots, status.stopped) == ((), ())


def test_a_reset_meanwhile_ends_the_copy(mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions of another epoch are not confirmed, and the stop stays."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        shop.read()
        at, name = EntryPosition(*mysql8.position()), f"{shop.database}.t"
        shop.connector.stop_table(name, reason="damaged", hint="Copy it.", position=at)
        epoch = shop.connector.client_status().epoch

        def reset() -> None:
            told = shop.connector.client_status
            later = type(told())
            monkeypatch.setattr(
                shop.connector,
                "client_status",
                lambda: later(**{f: getattr(told(), f) for f in later.__slots__} | {"epoch": epoch + 1}),
            )

        copying(monkeypatch, shop, reset)
        instance, _ = config.load_instance(tmp_path / "conf", "shop")
        with pytest.raises(SourceChanged, match="was reset"):
            Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions).copy(shop.database, "t", held=True)
        monkeypatch.undo()
        assert [stop.table for stop in shop.connector.client_status().stopped] == [name]

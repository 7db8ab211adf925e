"""Tables and cursor set back to one place, on lakes with random histories, without Spark: what its REPLACE does is done
by delta-rs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from cdc_core.errors import LakeError
from spark_jobs.as_of.as_of import NotAsOf, as_of
from spark_jobs.as_of.batches import Batches, Place
from spark_jobs.as_of.reading import read_batches
from spark_jobs.expectations.quarantine_table import QuarantineTable
from spark_jobs.lake.record import COPIED, CopyNote
from spark_jobs.lake.state import RULES, TableState
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import WentOn
from spark_jobs.past.asked import asked_position
from spark_jobs.session import Sessions
from spark_jobs.undo.restore import LakePlace, Restorer, waited
from tests.support.lake_history import LakeHistory
from tests.support.marks import tiers
from tests.support.undoing import replacing, restored

MERGED, LANDED = ["shop.a", "shop.b", "shop.keyless"], ["shop.l"]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LakeHistory]:
    lake = LakeHistory(tmp_path, random.Random(1), MERGED, LANDED)
    with replacing(lake):
        yield lake


def write(lake: LakeHistory, times: int) -> None:
    for _ in range(times):
        lake.commit(*lake.rng.sample(lake.tables, lake.rng.randint(1, 3)))
        if lake.rng.random() < 0.7:
            lake.batch()
        if lake.rng.random() < 0.5:
            lake.merge("shop.l", 1)
        if lake.rng.random() < 0.2:
            lake.repair(lake.rng.choice(MERGED))
        if lake.rng.random() < 0.1:
            lake.batch(killed=True)


def drained(lake: LakeHistory) -> None:
    while lake.cursor < len(lake.transactions) - 1:
        lake.batch()
    lake.merge("shop.l")


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", tiers([0, 1], full=[2], turns=range(3, 6)))
def test_random_histories(tmp_path: Path, seed: int) -> None:
    """Restored to a random place all tables have the rows of then, also without a key and with rows in a log; read on
    from there, each change is there once. A run that dies when some tables are restored leaves a lake that becomes
    right as well."""
    rng = random.Random(seed)
    lake = LakeHistory(tmp_path, rng, MERGED, LANDED)
    with replacing(lake):
        for _ in range(4):
            write(lake, 6)
            lake.merge("shop.l")
            batch = rng.choice(read_batches(lake.ledger).batches).batch_id
            try:
                found = as_of(lake.follows, f"batch:{batch}", nearest=True)
            except NotAsOf:
                continue
            index, killed = lake.index_of(found.place), rng.random() < 0.3
            names = [name for name in found.tables if not killed or rng.random() < 0.5]
            restored(lake, found, names)
            for name in names:
                assert lake.rows_of(found.tables[name]) == lake.rows_at(name, index)
                if not found.tables[name].later or found.tables[name].version is None:
                    assert lake.current(name) == lake.rows_at(name, index)
            write(lake, 3)
        drained(lake)
        for name in lake.tables:
            assert name not in lake.stopped
            assert lake.current(name) == lake.rows_at(name, len(lake.transactions) - 1)


class TestRestorer:
    def test_again(self, lake: LakeHistory) -> None:
        """A table that is at the place already is left alone: a run that is started again goes on with the others."""
        for _ in range(4):
            lake.commit(*MERGED)
            lake.batch_of(1)
        found = Restorer(lake.follows, cast(Sessions, None)).plan("batch:2")
        restored(lake, found, ["shop.a"])
        place = LakePlace(lake.epoch, asked_position(found.position))
        restorer = Restorer(lake.follows, cast(Sessions, None))
        made = {name: restorer.table(one, place).version for name, one in found.tables.items()}
        assert made["shop.a"] is None
        assert made["shop.b"] is not None
        assert lake.current("shop.a") == lake.rows_at("shop.a", 1)

    def test_killed_behind_the_commit(self, lake: LakeHistory) -> None:
        """Started again, it does what was left: late merges of the log's earlier epoch are kept out."""
        for _ in range(3):
            lake.commit("shop.l")
            lake.batch_of(1)
            lake.merge("shop.l")
        lake.commit("shop.l")
        lake.batch_of(1)  # landed, and not merged
        found = Restorer(lake.follows, cast(Sessions, None)).plan("batch:2")
        with mock.patch.object(Target, "_pass_epochs", side_effect=InterruptedError), suppress(InterruptedError):
            restored(lake, found, ["shop.l"])
        app, end = lake.app("shop.l", 0), lake.server.position(3).version()
        assert (lake.lake.applied(lake.path("shop.l"), [app])[0] or 0) < end
        place = LakePlace(lake.epoch, asked_position(found.position))
        assert Restorer(lake.follows, cast(Sessions, None)).table(found.tables["shop.l"], place).version is None
        assert lake.lake.applied(lake.path("shop.l"), [app]) == [end]
        drained(lake)
        assert lake.current("shop.l") == lake.rows_at("shop.l", 3)

    def test_unchanged_since(self, lake: LakeHistory) -> None:
        """Nor is a table written that has not changed since the place."""
        lake.commit(*MERGED)
        lake.batch_of(1)
        lake.commit("shop.b")
        lake.batch_of(1)
        found = Restorer(lake.follows, cast(Sessions, None)).plan("batch:1")
        before = lake.lake.open(lake.path("shop.a")).version()
        restored(lake, found, ["shop.a", "shop.b"])
        assert lake.lake.open(lake.path("shop.a")).version() == before
        drained(lake)
        assert lake.current("shop.b") == lake.rows_at("shop.b", 1)

    def test_a_run_was_faster(self, lake: LakeHistory) -> None:
        """A batch of the new epoch that came first keeps the table from being restored: it would be lost."""
        for _ in range(3):
            lake.commit(*MERGED)
            lake.batch_of(1)
        found = Restorer(lake.follows, cast(Sessions, None)).plan("batch:1")
        restored(lake, found, [])
        lake.batch_of(1)
        place = LakePlace(lake.epoch, asked_position(found.position))
        with pytest.raises(WentOn):
            Restorer(lake.follows, cast(Sessions, None)).table(found.tables["shop.a"], place)

    def test_statements(self, lake: LakeHistory) -> None:
        """Across a TRUNCATE the rows come back; the statement comes again."""
        lake.commit("shop.a")
        lake.batch_of(1)
        lake.statement("truncate", "shop.a")
        lake.batch_of(1)
        found = Restorer(lake.follows, cast(Sessions, None)).plan("batch:1")
        restored(lake, found, ["shop.a"])
        assert lake.current("shop.a") == lake.rows_at("shop.a", 0)
        drained(lake)
        assert lake.current("shop.a") == {}

    def test_rules_since(self, lake: LakeHistory) -> None:
        """Rows that other rules made than those of now are not shown again: nothing is done."""
        for _ in range(2):
            lake.commit("shop.a")
            lake.batch_of(1)
        hidden = {RULES: '{"v": {"name": "", "mask": null}}'}
        lake.lake.open(lake.path("shop.a")).alter.set_table_properties(hidden, raise_if_not_exists=False)
        with pytest.raises(LakeError, match="cannot be restored: rules have changed since"):
            Restorer(lake.follows, cast(Sessions, None)).plan("batch:1")

    @pytest.mark.parametrize(
        ("noted", "waits"),
        [
            ([], False),
            ([(0, 100, 2)], True),
            ([(0, 100, 0)], False),
            ([(0, 220, 2)], False),
            ([(0, 201, 2)], True),  # that a RENAME brought
            ([(0, 100, 2), (0, 200, 0)], False),
            ([(0, 100, 2), (0, 220, 0)], True),
            ([(0, 100, 2), (1, 90, 0)], True),
            ([(0, 40, 2)], False),
        ],
    )
    def test_rows_in_quarantine(self, noted: list[tuple[int, int, int]], *, waits: bool) -> None:
        """Rows that waited at the place would be in neither table: those until the batch that ended them, or the last
        one that an epoch has. Those of before the table's base did not count."""
        then = TableState(5, 200, (), {COPIED: CopyNote(0, 50, 50).to_json()})
        assert waited(noted, Place(0, 200), Batches(), then) is waits

    def test_waiting_since(self, lake: LakeHistory) -> None:
        """Nothing is done then."""
        lake.commit("shop.a")
        lake.batch_of(1)
        quarantine = QuarantineTable(lake.lake, "d", "shop.a")
        about = {"quarantine": {"number": 1, "epoch": 0, "version": lake.server.position(0).version(), "rows": 1}}
        noted = CommitProperties(custom_metadata={"userMetadata": json.dumps(about)})
        write_deltalake(quarantine.path, pa.table({"id": [1]}), commit_properties=noted)
        with pytest.raises(LakeError, match="rows waited in its quarantine"):
            Restorer(lake.follows, cast(Sessions, None)).plan("batch:1")

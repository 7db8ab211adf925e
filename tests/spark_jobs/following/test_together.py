"""The logs of small tables are merged by one job of Spark as statements would merge them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs.following.follow import Follow, FollowOptions
from spark_jobs.following.history.works import Works
from spark_jobs.following.merge import Merger
from spark_jobs.following.merged import Merged
from spark_jobs.following.pending import PART_ROWS, Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.row_rules import Deletes, LastChange, RowRules
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.parked import Parked, Parking
from spark_jobs.session import Sessions
from spark_jobs.write import fused
from spark_jobs.write.order import Engine, Order, Outcome
from tests.support.applying import apply_batch
from tests.support.random_changes import Script, rows, scripts
from tests.support.spark_feed import Change, Feed, Table

pytestmark = pytest.mark.integration

LANDS = Modes(Mode.LAND_FIRST)
KEYED = Table("keyed", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",))
BAG = Table("bag", pa.schema({"a": pa.int32(), "b": pa.string()}))
RULES = RowRules(
    deletes_by={"shop.soft": Deletes.SOFT},
    columns_by={"shop.soft": tuple(LastChange), "shop.marked": tuple(LastChange)},
)


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """What became of the orders of all jobs."""
    found, write_all = list[Outcome](), fused.write_all

    def noted(sessions: Sessions, orders: Sequence[Order], tasks: int) -> list[Outcome]:
        made = write_all(sessions, orders, tasks)
        found.extend(made)
        return made

    monkeypatch.setattr("spark_jobs.following.together.write_all", noted)
    return found


def merger(lake: Lake, sessions: Sessions, engine: Engine = Engine.AUTO, part_rows: int = PART_ROWS) -> Merger:
    return Merger(Follows(lake, "d", 1, part_rows), sessions, Fence(lake, sessions), "run", engine=engine)


def follow(one: Merger, *, histories: bool = False) -> list[Merged | Parked]:
    lake = one.follows.lake
    works, pace = Works(one, lambda _: histories), FollowOptions(parallelism=2, linger_seconds=0.0)
    return list(Follow(works, Parking(lake, "d", 1), lambda: works.of(lake.logs("d")), pace).run())


@pytest.mark.in_turn
@pytest.mark.full
def test_both_engines_merge_the_same_rows(
    service: Feed, sessions: Sessions, tmp_path: Path, outcomes: list[Outcome]
) -> None:
    """Whatever the types of keys and values, also in parts of few rows."""
    rng = random.Random(2)
    made = scripts(rng)
    lakes = {engine: Lake(tmp_path / engine, rules=RULES) for engine in Engine}
    for batch, (start, end) in enumerate([(0, 50), (50, 80), (80, 110)], 1):
        for script in made:
            service.put(script.table, script.changes(start, end - start))
        claim = service.claim(batch, start, end)
        for lake in lakes.values():
            assert not apply_batch(claim, lake, sessions, service.url, modes=LANDS).refused
        if batch == 2:
            continue  # two claims are merged as two parts
        found = {engine: follow(merger(lake, sessions, engine, 20)) for engine, lake in lakes.items()}
        assert sorted(map(told, found[Engine.AUTO])) == sorted(map(told, found[Engine.SQL]))
        for script in made:
            name = script.table.name
            assert rows(lakes[Engine.AUTO], name) == rows(lakes[Engine.SQL], name), name
    assert {one.why for one in outcomes} == {""}
    assert len(outcomes) == 3 * (len(made) - 1)  # copies of rows with floats go by statements


@pytest.mark.in_turn
@pytest.mark.full
def test_both_engines_keep_the_same_histories(
    service: Feed, sessions: Sessions, tmp_path: Path, outcomes: list[Outcome]
) -> None:
    """Many images of a key in one part, keys that change, rows that go and come. It begins without deletion vectors."""
    rng = random.Random(3)
    made = [one for one in scripts(rng) if one.table.key][:3]
    few = Table("versions", pa.schema({"id": pa.int32(), "what": pa.string()}), key=("id",))
    made.append(Script(rng, few, [(1, 2, 3, 4), ("x", "y")]))
    lakes = {engine: Lake(tmp_path / engine) for engine in Engine}
    for batch, (start, end) in enumerate([(0, 3), (3, 60), (60, 80)], 1):
        for script in made:
            service.put(script.table, script.changes(start, end - start))
        claim = service.claim(batch, start, end)
        for engine, lake in lakes.items():
            assert not apply_batch(claim, lake, sessions, service.url, modes=Modes(Mode.HISTORY)).refused
            Ledger(lake, "d", 1).note(claim, {}, "run", 1.0)  # a history waits for its table until then
            found = follow(merger(lake, sessions, engine), histories=True)
            assert all(isinstance(one, Merged) for one in found), found
        for script in made:
            name = script.table.name
            assert rows(lakes[Engine.AUTO], name) == rows(lakes[Engine.SQL], name), name
            one, other = (rows(lake, f"{name}__history") for lake in lakes.values())
            assert one == other, name
    assert {one.why for one in outcomes} == {""}
    assert len(outcomes) == 2 * 3 * len(made)
    path = lakes[Engine.AUTO].history_path("shop", "versions")
    assert "deletionVectors" not in (DeltaTable(path).protocol().writer_features or [])


def told(merged: Merged | Parked) -> tuple[Any, ...]:
    """What a run learns of a table's part."""
    assert isinstance(merged, Merged), merged
    return merged.table, merged.upto, merged.rows, merged.inserted, merged.updated, merged.deleted, merged.contradiction


def land(service: Feed, lake: Lake, sessions: Sessions, batch: int, start: int, end: int) -> None:
    assert not apply_batch(service.claim(batch, start, end), lake, sessions, service.url, modes=LANDS).refused


def test_what_the_job_leaves_a_statement_merges(
    service: Feed, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that dies in the middle: a table that it committed is there once, the others come by statements."""
    lake = Lake(tmp_path)
    service.put(KEYED, [Change(n, None, (n, "x")) for n in range(1, 9)])
    service.put(BAG, [Change(n, None, (n, "x")) for n in range(1, 9)])
    land(service, lake, sessions, 1, 0, 4)
    follow(merger(lake, sessions))
    write_all = fused.write_all

    def dies(pool: Sessions, orders: Sequence[Order], tasks: int) -> list[Outcome]:
        assert [one.why for one in write_all(pool, orders[:1], tasks)] == [""]
        return [Outcome(why="the job died")] * len(orders)

    land(service, lake, sessions, 2, 4, 8)
    with monkeypatch.context() as patched:
        patched.setattr("spark_jobs.following.together.write_all", dies)
        found = follow(merger(lake, sessions))
    assert all(isinstance(one, Merged) for one in found)
    assert rows(lake, "keyed") == Counter(f"({n}, 'x')" for n in range(1, 9))
    assert rows(lake, "bag") == Counter(f"({n}, 'x')" for n in range(1, 9))


def test_a_late_job_of_a_dead_run_merges_nothing(
    service: Feed, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome]
) -> None:
    """Another run has merged the parts, and longer ones, before its tasks begin."""
    lake = Lake(tmp_path)
    service.put(KEYED, [Change(n, None, (n, "x")) for n in range(1, 9)])
    service.put(BAG, [Change(n, None, (1, "x")) for n in range(1, 9)])
    land(service, lake, sessions, 1, 0, 4)
    late, write_all = merger(lake, sessions), fused.write_all

    def slow(pool: Sessions, orders: Sequence[Order], tasks: int) -> list[Outcome]:
        land(service, lake, sessions, 2, 4, 8)
        monkeypatch.setattr("spark_jobs.following.together.write_all", write_all)
        follow(merger(lake, sessions))
        outcomes.extend(write_all(pool, orders, tasks))
        outcomes.extend(write_all(pool, [replace(one, token=_token(one)) for one in orders], tasks))
        return [Outcome(why="it is dead")] * len(orders)

    monkeypatch.setattr("spark_jobs.following.together.write_all", slow)
    follow(late)
    assert {one.why.partition(": ")[2] for one in outcomes} == {
        "another run has taken the table over",
        "the table has that version",
    }
    assert rows(lake, "keyed") == Counter(f"({n}, 'x')" for n in range(1, 9))
    assert rows(lake, "bag") == Counter({"(1, 'x')": 8})


def _token(one: Order) -> str:
    return str(DeltaTable(one.path).metadata().configuration["sluice.fence"])

"""spark_jobs.as_of: over random histories of a real lake, each version that is chosen has the source's rows of then."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from spark_jobs.as_of import reading
from spark_jobs.as_of.as_of import NotAsOf, TablesAsOf, as_of
from spark_jobs.as_of.batches import Place
from spark_jobs.as_of.choice import AsOf, as_of_place, nearest_before
from spark_jobs.as_of.reading import VersionReader, read_batches
from tests.support.lake_history import LakeHistory

MERGED, LANDED = ["shop.a", "shop.b", "shop.keyless"], ["shop.l"]


def step(lake: LakeHistory, rng: random.Random, kinds: list[str]) -> None:
    """One thing that happens."""
    name = rng.choice(lake.tables)
    match rng.choice(kinds):
        case "write":
            for _ in range(rng.randint(1, 4)):
                lake.commit(*rng.sample(lake.tables, rng.randint(1, 2)))
        case "batch":
            lake.batch()
        case "killed":
            lake.batch(killed=True)
        case "rewind":
            lake.rewind(rng.randint(0, 4))
        case "move":
            lake.move(rng.choice([None, None, 2]))
        case "statement":
            lake.statement(rng.choice(["truncate", "drop", "create", "alter"]), name)
        case "stop":
            if name not in lake.landed:
                lake.stopped.add(name)
        case "filter":
            lake.refilter(rng.choice(["", *MERGED]))
        case "copy":
            low = rng.randint(lake.cursor, min(lake.cursor + 2, len(lake.transactions) - 1))
            high = min(low + rng.randint(0, 2), len(lake.transactions) - 1)
            if low >= 0 and name not in lake.landed:
                lake.copy(name, low, high)
        case "merge":
            for one in lake.landed:
                lake.merge(one, 1)
        case "repair":
            lake.repair(name)
        case "restore":
            if name not in lake.landed:
                lake.restore(name)
        case "upkeep":
            lake.upkeep(name)
        case "vacuum":
            lake.vacuum(name)


def check(lake: LakeHistory) -> tuple[int, int]:
    """Each place of each server: what is chosen there is right. Returns how many places have all tables, and how
    many were looked at."""
    batches = read_batches(lake.ledger)
    reader = VersionReader(lake.follows, batches)
    known = [one for one in map(reader.read, reader.names()) if one is not None]
    for _ in range(200):  # as the command does: versions without their files are left out
        places = [
            Place(server.first, server.position(index).version())
            for server in lake.servers
            for index in range(-1, len(lake.transactions))
            if (span := batches.reached(server.first)) and span[0] <= server.position(index).version() <= span[1]
        ]
        found = [as_of_place(known, batches, one) for one in places]
        versions = {(one.table, one.version) for there in found for one in there.chosen if one.version is not None}
        checked = known
        for table, version in versions:
            checked = [reader.without_files(one, version) if one.table == table else one for one in checked]
        if checked == known:
            break
        known = checked
    whole = 0
    for there in found:
        look(lake, there)
        whole += not there.refused
        near = nearest_before(known, batches, there.place)
        brute = [end for end in batches.ends if end <= there.place and not as_of_place(known, batches, end).refused]
        assert near == max(brute, default=None)
    return whole, len(found)


def look(lake: LakeHistory, found: AsOf) -> None:
    index = lake.index_of(found.place)
    for chosen in found.chosen:
        later = {f"c{number}" for number in range(index + 1, len(lake.transactions))}
        assert not later & lake.columns_of(chosen), (found.place, index, chosen)
        assert lake.rows_of(chosen) == lake.rows_at(chosen.table, index), (found.place, index, chosen)
    for absent in found.absent:
        if absent.why == "it was not captured then":
            continue
        assert not lake.rows_at(absent.table, index), (found.place, index, absent)


def answer(lake: LakeHistory, end: Place) -> TablesAsOf | str:
    """The nearest versions, or the error."""
    try:
        return as_of(lake.follows, Place(0, end.version), nearest=True)
    except NotAsOf as error:
        return str(error)


PLAIN = ["write", "write", "batch", "batch", "upkeep", "repair", "statement", "merge"]


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", range(12))
def test_every_place_of_an_undisturbed_history_has_all_tables(tmp_path: Path, seed: int) -> None:
    """With statements, repairs and upkeep: at the end of each batch, and wherever no batch spans the place."""
    rng = random.Random(seed)
    lake = LakeHistory(tmp_path, rng, MERGED, LANDED)
    for _ in range(25):
        step(lake, rng, PLAIN)
    batches = read_batches(lake.ledger)
    reader = VersionReader(lake.follows, batches)
    known = [one for one in map(reader.read, reader.names()) if one is not None]
    for end in batches.ends:
        found = as_of_place(known, batches, end)
        assert not found.refused, (found.place, found.refused, lake.index_of(end))
        look(lake, found)
    check(lake)


DISTURBED = (
    ("rewind", "killed"),
    ("rewind", "vacuum"),
    ("restore", "copy"),
    ("stop", "copy"),
    ("move", "killed"),
    ("filter", "copy"),
    ("killed", "rewind", "move", "stop", "filter", "copy", "restore", "vacuum"),
)


@pytest.mark.in_turn
@pytest.mark.parametrize("more", DISTURBED, ids="-".join)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_chosen_is_right_whatever_happened(tmp_path: Path, seed: int, more: tuple[str, ...]) -> None:
    """Runs are killed, cursors go back, servers change, tables stop, are copied, restored and vacuumed."""
    rng = random.Random(f"{seed} {more}")
    lake = LakeHistory(tmp_path, rng, MERGED, LANDED)
    for _ in range(45):
        step(lake, rng, [*PLAIN, *more])
    check(lake)


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", range(4))
def test_the_last_commits_show_the_same_as_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Where they are enough for a place; where not, all are read."""
    rng = random.Random(50 + seed)
    lake = LakeHistory(tmp_path, rng, MERGED, LANDED)
    for _ in range(30):
        step(lake, rng, [*PLAIN, "rewind", "killed"])
    ends = read_batches(lake.ledger).ends
    answers = []
    for recent in (3, 1000):
        monkeypatch.setattr(reading, "RECENT", recent)
        answers.append([answer(lake, end) for end in ends])
    assert answers[0] == answers[1]

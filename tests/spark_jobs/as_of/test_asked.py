"""spark_jobs.as_of.asked: the place that somebody asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cdc_core.errors import ConfigError, LakeError
from cdc_core.gtid import Gtid
from cdc_core.position import EntryPosition
from spark_jobs.as_of.asked import AskedPlace, Value
from spark_jobs.as_of.batches import Batches, NotedBatch, Place

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NOON = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


def at(offset: int, journal: int = 1) -> int:
    return EntryPosition(f"bin.{journal:06}", offset).version()


def batch(number: int, epoch: int, start: int, end: int, *, partial: bool = False, gtid: str = "") -> NotedBatch:
    executed = NOON + timedelta(minutes=number)
    gtid = gtid or f"{SERVER}:1-{number * 10}"
    return NotedBatch(epoch, at(start), at(end), number, partial, executed, gtid, "bin.000001")


BATCHES = Batches([batch(1, 0, 4, 100), batch(2, 0, 100, 200, partial=True), batch(3, 0, 200, 300)], {0: 0})


@pytest.mark.parametrize(
    ("asked", "offset"),
    [
        ("bin.000001:100", 100),
        ("position:bin.000001:150", 150),
        ("3", 300),
        ("batch:1", 100),
        (3, 300),
        ("2026-11-26T12:03:00Z", 300),
        ("time:2026-11-26 12:02:59+00:00", 100),  # the second batch ends within a transaction
        (NOON + timedelta(minutes=1), 100),
        (f"{SERVER}:5", 100),
        (f"gtid:{SERVER}:1-11", 300),
        (Gtid(SERVER, "", 30), 300),
        ("latest", 300),
        (f"0.{at(100)}", 100),
        (EntryPosition("bin.000001", 300), 300),
    ],
)
def test_a_place_is_found(asked: str | Value | Gtid, offset: int) -> None:
    """By any of its names; of a batch, a GTID and a time it is the end of a batch."""
    assert AskedPlace.of(asked).place(BATCHES) == Place(0, at(offset))


@pytest.mark.parametrize("asked", ["", "nonsense", "batch:x", "gtid:1-2", "time:yesterday", "position:bin:4"])
def test_a_text_of_no_form_is_refused(asked: str) -> None:
    """With all forms in the hint."""
    with pytest.raises(ConfigError, match="no place") as error:
        AskedPlace.of(asked)
    assert "mysql-bin.000007:1547" in error.value.hint


@pytest.mark.parametrize("asked", ["2", "9", "2026-11-26T11:00:00Z", f"{SERVER}:31", "other.000001:100"])
def test_a_place_without_a_batch_is_refused(asked: str) -> None:
    """One that the ledger lacks, and one that ends within a transaction."""
    with pytest.raises(LakeError, match="no batch"):
        AskedPlace.of(asked).place(BATCHES)


def test_without_gtid_mode_the_last_transaction_of_a_batch_counts() -> None:
    """MySQL's GTIDs rise; those of another server are not comparable. MariaDB names the last one of each domain."""
    found = Batches([batch(1, 0, 4, 100, gtid=f"{SERVER}:7"), batch(2, 0, 100, 200, gtid=f"{SERVER}:12")], {0: 0})
    assert AskedPlace.of(f"{SERVER}:8").place(found) == Place(0, at(200))
    with pytest.raises(LakeError, match="no batch"):
        AskedPlace.of("4e11fa47-71ca-11e1-9e33-c80aa9429562:3").place(found)
    found = Batches([batch(1, 0, 4, 100, gtid="0-1-7"), batch(2, 0, 100, 200, gtid="0-1-12,1-1-3")], {0: 0})
    assert AskedPlace.of("0-1-7").place(found) == Place(0, at(100))
    assert AskedPlace.of("1-1-2").place(found) == Place(0, at(200))


def test_a_position_is_on_the_server_that_had_it() -> None:
    """A rewind stays on one server, whose first epoch names it. Of several that had it, none is guessed."""
    rewound = [batch(1, 0, 4, 300), batch(2, 1, 100, 400)]
    assert AskedPlace.of("bin.000001:350").place(Batches(rewound, {1: 0})) == Place(0, at(350))
    moved = [batch(1, 0, 4, 300), batch(2, 1, 100, 200)]
    assert AskedPlace.of("bin.000001:350").place(Batches([*moved, batch(3, 1, 200, 400)], {0: 0, 1: 1})).server == 1
    with pytest.raises(LakeError, match="2 servers had that position") as error:
        AskedPlace.of("bin.000001:150").place(Batches(moved, {0: 0, 1: 1}))
    assert f"0.{at(150)} or 1.{at(150)}" in error.value.hint
    assert AskedPlace.of("bin.000001:250").place(Batches(moved, {0: 0, 1: 1})) == Place(0, at(250))


def test_a_time_is_the_latest_place_of_by_then_also_after_a_rewind() -> None:
    """What is read again was executed before."""
    rewound = Batches([batch(1, 0, 4, 100), batch(5, 0, 100, 300), batch(2, 1, 4, 200)], {1: 0})
    assert AskedPlace.of(NOON + timedelta(minutes=9)).place(rewound) == Place(0, at(300))
    assert AskedPlace.of(NOON + timedelta(minutes=4)).place(rewound) == Place(0, at(200))


def test_epochs_of_which_nothing_is_said_are_other_servers() -> None:
    """An older ledger says nothing; a later epoch may say that nothing has moved since."""
    assert [Batches().server(epoch) for epoch in range(3)] == [0, 1, 2]
    assert [Batches(moved={2: 1}).server(epoch) for epoch in range(4)] == [0, 1, 1, 3]


def test_a_place_within_a_transaction_is_known() -> None:
    """Of several batches; their first start and their last end are places."""
    found = Batches([batch(1, 0, 4, 100), batch(2, 0, 100, 200, partial=True), batch(3, 0, 200, 300)], {0: 0})
    assert found.ends == [Place(0, at(100)), Place(0, at(300))]
    within = [found.is_within_transaction(Place(0, at(one))) for one in (50, 100, 150, 200, 250, 300)]
    assert within == [False, False, True, True, True, False]

"""spark_jobs.lake.continuity: when a destination goes on where the lake ends, and when it does not."""

from __future__ import annotations

import pytest

from cdc_core.contract.reached import How, Reached
from cdc_core.errors import LakeError
from cdc_core.gtid import GtidSet
from cdc_core.position import EntryPosition
from spark_jobs.lake.continuity import EpochSpan, Seen, check


def at(offset: int, gtid: str = "") -> EntryPosition:
    return EntryPosition("bin.000003", offset, gtid=GtidSet.parse(gtid) if gtid else None)


def told(epoch: int, reached: Reached | None, stretches: dict[int, EpochSpan]) -> str:
    return check(Seen("shop", 1001, epoch, reached), stretches, "/lake")


ENDS = {0: EpochSpan(at(4).version(), at(900))}


@pytest.mark.parametrize(
    ("epoch", "reached", "stretches"),
    [
        pytest.param(0, Reached(How.START, 0, at(100)), {}, id="a first run"),
        pytest.param(0, Reached(How.START, 0, at(900)), ENDS, id="began anew exactly where the lake ends"),
        pytest.param(0, Reached(How.START, 0, at(100)), ENDS, id="began anew before it: rows come again"),
        pytest.param(0, Reached(How.BATCH, 0, at(900)), ENDS, id="the next batch, behind ranges without rows"),
        pytest.param(0, Reached(How.BATCH, 0, at(500)), ENDS, id="a batch was noted and not acked"),
        pytest.param(1, Reached(How.BATCH, 0, at(900)), ENDS, id="another server, a new epoch"),
        pytest.param(
            1, Reached(How.START, 0, at(4)), {1: EpochSpan(at(4).version(), at(9))}, id="a move before a batch"
        ),
        pytest.param(1, Reached(How.RESET, 1, at(100)), ENDS, id="a rewind"),
        pytest.param(
            1, Reached(How.RESET, 1, at(100)), ENDS | {1: EpochSpan(at(150).version(), at(300))}, id="noted, not acked"
        ),
        pytest.param(2, Reached(How.RESET, 1, at(900)), ENDS, id="a rewind to the end, then another server"),
        pytest.param(0, None, ENDS, id="an older service"),
    ],
)
def test_what_is_legitimate_passes(epoch: int, reached: Reached | None, stretches: dict[int, EpochSpan]) -> None:
    """No false alarm: nothing lies between the lake's end and what comes, or rows come again."""
    assert told(epoch, reached, stretches) == ""


@pytest.mark.parametrize(
    ("epoch", "reached", "stretches", "words"),
    [
        (0, Reached(How.START, 0, at(901)), ENDS, "cursor was lost .* at bin.000003:901, .* ends at bin.000003:900"),
        (0, Reached(How.FOREIGN, 0, at(950)), ENDS, "another program moved the cursor to bin.000003:950, .*:900"),
        (0, Reached(How.FOREIGN, 0, at(950)), {}, "another program .*:950, .* has no batch of epoch 0"),
        (0, Reached(How.BATCH, 0, at(901)), ENDS, "batches are acked to bin.000003:901, .*:900 at .*Name the lake"),
        (1, Reached(How.START, 0, at(901)), ENDS, "the cursor was lost .*:901"),
        (1, Reached(How.START, 1, at(100)), ENDS, "the cursor was lost"),
        (0, Reached(How.BATCH, 0, at(900)), ENDS | {2: ENDS[0]}, "in epoch 0, .* of epoch 2, .* --epoch 3 --yes"),
        (1, Reached(How.RESET, 1, at(950)), {1: ENDS[0]}, "of that epoch from journal 3:4 on"),
    ],
)
def test_rows_between_are_an_error(epoch: int, reached: Reached, stretches: dict[int, EpochSpan], words: str) -> None:
    """The error names both positions and the command that goes on where the lake ends."""
    with pytest.raises(LakeError, match=words) as caught:
        told(epoch, reached, stretches)
    if stretches:
        assert "sluice reset shop --client-id 1001 --position bin.000003:900" in caught.value.hint


def test_a_gtid_set_says_where_the_lake_ends_on_every_server() -> None:
    """In GTID mode the hint has the set, which holds also after a failover."""
    server = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    with pytest.raises(LakeError, match=f"--gtid {server}:1-77 --yes"):
        told(0, Reached(How.START, 0, at(901)), {0: EpochSpan(4, at(900, f"{server}:1-77"))})


def test_a_skip_by_an_operator_is_reported() -> None:
    """A reset may skip rows on purpose; the run says which. So it does for a cursor that the source had purged."""
    assert told(1, Reached(How.RESET, 1, at(950)), ENDS) == (
        "a reset skipped the rows from bin.000003:900, where the lake ends, to bin.000003:950"
    )
    assert "are lost" in told(0, Reached(How.LOST, 0, at(950)), ENDS)

"""The GTID set after the last transaction, counted as blocks pass."""

from __future__ import annotations

from cdc_core.binlog.block import Block, Kind
from cdc_core.gtid import GtidSet
from cdc_core.stream.executed import Executed
from tests.support.gtid_events import ONE, log_of


def transactions() -> tuple[Block, Block, Block]:
    """Two of them as one block, the same until inside the second, and the rest."""
    block = log_of(f"{ONE}:1", f"{ONE}:2").block()
    block.index["kind"][[2, 5]] = Kind.COMMIT
    head, tail = (
        Block(block.journal_name, block.start, block.data, part) for part in (block.index[:4], block.index[4:])
    )
    return block, head, tail


def pushed(executed: Executed, block: Block) -> str:
    assert list(executed.push(block)) == [block]
    return str(executed.committed)


def test_only_what_ended_is_executed() -> None:
    """A transaction that goes on into the next block counts when it ends; after a reset it comes again."""
    _, head, tail = transactions()
    executed = Executed(GtidSet())

    assert pushed(executed, head) == f"{ONE}:1"
    assert pushed(executed, tail) == f"{ONE}:1-2"

    executed = Executed(GtidSet())
    pushed(executed, head)
    executed.reset()
    assert pushed(executed, tail) == f"{ONE}:1"


def test_a_block_that_was_refused_does_not_count() -> None:
    """The set advances when the ring has taken the block, and asks for the next."""
    block, _, _ = transactions()
    executed = Executed(GtidSet())

    assert next(executed.push(block)) is block

    assert executed.committed == GtidSet()


def test_without_gtid_mode_nothing_is_counted() -> None:
    """Blocks pass all the same."""
    block, _, _ = transactions()

    assert pushed(Executed(), block) == "None"

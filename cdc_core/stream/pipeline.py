"""The way of a block from the source to the ring: a list of stages, and the order that they have.

A block goes all the way, to the ring, before the next one is made. Everything happens in the caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Protocol

from cdc_core.binlog.block import Block
from cdc_core.position import EntryPosition
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.executed import Executed
from cdc_core.stream.expand import Expander
from cdc_core.stream.history import History
from cdc_core.stream.settle import Settler
from cdc_core.stream.trim import Trimmer


class Stage(Protocol):
    """One step of the way. After an error `reset` is due before the next `push`."""

    def push(self, block: Block) -> Iterable[Block]:
        """The blocks that this one becomes, none or several, in the journal's order."""

    def reset(self) -> None:
        """Forget the open transaction: the next block is the first of a connection or of a journal."""


class Pipeline:
    """Stages in a row, themselves a stage."""

    def __init__(self, *stages: Stage) -> None:
        self._stages = stages

    def __repr__(self) -> str:
        return f"<Pipeline {' '.join(map(repr, self._stages))}>"

    def push(self, block: Block) -> Iterator[Block]:
        blocks: Iterator[Block] = iter((block,))
        for stage in self._stages:
            blocks = chain.from_iterable(map(stage.push, blocks))
        return blocks

    def reset(self) -> None:
        for stage in self._stages:
            stage.reset()


def pipeline(
    history: History, annotator: Annotator, executed: Executed, last_position: Callable[[], EntryPosition | None]
) -> Pipeline:
    """What every block from a source goes through. `last_position` is where the last event in the ring ends."""
    return Pipeline(
        Expander(),  # compressed events become the events that they stand for
        Settler(history.reread, history.find_prepared),  # rolled back rows leave, prepared ones move to their XA COMMIT
        annotator,  # each event gets its kind, schema and number of rows; rows that the filter leaves out are marked
        executed,  # the GTID set after the last transaction grows
        Trimmer(last_position),  # events that the ring has already leave
    )

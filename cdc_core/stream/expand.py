"""The stage that opens what the source sends compressed: MySQL's TRANSACTION_PAYLOAD, MariaDB's compressed events.

A large transaction becomes several blocks, one at a time; a block without compressed events passes as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from cdc_core.binlog import compressed, payload
from cdc_core.binlog.block import Block


class Expander:
    """Has no state: a compressed event stands for itself."""

    def __repr__(self) -> str:
        return "<Expander>"

    def reset(self) -> None:
        pass

    def push(self, block: Block) -> Iterator[Block]:
        return expand(block)


def expand(block: Block) -> Iterator[Block]:
    """Raises DecodeError with the place of a damaged event, after the sound blocks before it."""
    for piece in payload.expand(block):
        yield from compressed.expand(piece)

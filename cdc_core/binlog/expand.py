"""The stage between framing and annotate: what the source sends compressed, as the events that it stands for.

A large transaction comes in several blocks, one at a time; a block without anything compressed comes as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from cdc_core.binlog import compressed, payload
from cdc_core.source.block import Block


def expand(block: Block) -> Iterator[Block]:
    """Raises DecodeError with the place of what is damaged, after the sound blocks before it."""
    for piece in payload.expand(block):
        yield from compressed.expand(piece)

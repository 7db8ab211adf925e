"""The stage that knows the GTID set after the last transaction: what a dump by GTID continues from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cdc_core.binlog.block import ENDS, Block, BlockSlice
from cdc_core.binlog.gtid_events import add_gtids
from cdc_core.gtid import Gtids


class Executed:
    """`committed` is None until `start`, and without GTID mode: then blocks pass uncounted."""

    def __init__(self, committed: Gtids | None = None) -> None:
        self.start(committed)

    def __repr__(self) -> str:
        return f"<Executed {self.committed}>"

    def start(self, committed: Gtids | None) -> None:
        """Blocks begin after this set."""
        self.committed = committed
        self.reset()

    def reset(self) -> None:
        self._open = None if self.committed is None else type(self.committed)()

    def push(self, block: Block) -> Iterator[Block]:
        """The block as it is. Its GTIDs count once the stages after, and the ring, have taken it."""
        yield block
        if self.committed is not None:
            self._advance(block)

    def _advance(self, block: Block) -> None:
        assert self.committed is not None
        ends = np.flatnonzero(np.isin(block.index["kind"], ENDS))
        behind = int(ends[-1]) + 1 if len(ends) else 0
        if behind:
            both = self.committed | self._open  # type: ignore[operator]
            self.committed = add_gtids(both, BlockSlice(block, 0, behind))
            self.reset()
        assert self._open is not None
        self._open = add_gtids(self._open, BlockSlice(block, behind, len(block.index)))

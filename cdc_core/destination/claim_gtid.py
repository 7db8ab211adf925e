"""The GTID after a range of blocks, for the cursor of the claim that ends there."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_core.binlog.block import BlockSlice
from cdc_core.binlog.gtid_events import add_gtids, last_gtid
from cdc_core.gtid import Gtid, Gtids, parse_gtids


def gtid_after(slices: Sequence[BlockSlice], before: Gtid | Gtids | None, flavor: str) -> Gtids | None:
    """In GTID mode: the whole set. `flavor` is the server's."""
    gtids = before if isinstance(before, Gtids) else parse_gtids(str(before or ""), flavor)
    for part in slices:
        gtids = add_gtids(gtids, part)
    return gtids


def last_gtid_after(slices: Sequence[BlockSlice], before: Gtid | Gtids | None) -> Gtid | Gtids | None:
    """Without it: the GTID of the last transaction, or of the one before the range."""
    return next((gtid for part in reversed(slices) if (gtid := last_gtid(part)) is not None), before)

"""Where reading goes on, as Canal's FailbackLogPositionManager has it: memory first, then what the clients consumed.

Canal has a manager for each pair of places; here it is one function of two. Memory is the last transaction's end that
was put into the store (Canal persists it at each TRANSACTIONEND): it is there after a reconnect, and gone with the
process. Then it is the smallest cursor, so that no client misses anything; those ahead pass over what they have.
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc_core.position import EntryPosition


def latest(put: EntryPosition | None, cursors: Iterable[EntryPosition | None]) -> EntryPosition | None:
    """`put`: the last transaction's end in the store. None where there is neither: then the configuration counts."""
    return put or min((cursor for cursor in cursors if cursor is not None), default=None)

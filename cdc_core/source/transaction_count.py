"""How many transactions lie between a client's GTID and the server's executed set."""

from __future__ import annotations

from collections.abc import Callable

from cdc_core.gtid import Gtid, Gtids, GtidSet
from cdc_core.source.connection import Connection

_HEAD_EVENTS = 4  # Previous_gtids follows the format description


def executed_before_journal(conn: Connection, journal_name: str) -> GtidSet:
    """The set that a journal begins with; empty when the journal does not name one."""
    with conn.cursor() as cursor:
        cursor.execute("SHOW BINLOG EVENTS IN %s LIMIT %s", (journal_name, _HEAD_EVENTS))
        events = cursor.fetchall()
    return GtidSet.parse(next((str(event[5]) for event in events if event[2] == "Previous_gtids"), ""))


def transactions_after(
    gtid: Gtid | Gtids | None, executed: Gtid | Gtids | None, before: Callable[[], GtidSet]
) -> int | None:
    """The number of transactions in `executed` that come after `gtid`; None if the GTIDs do not show it.

    A set (GTID mode) always shows it. For the GTID of one transaction, `before` returns the set that its journal begins
    with; the number is known while a single server wrote since then: GTIDs of several servers have no order.
    """
    if not isinstance(executed, GtidSet):
        return None
    if isinstance(gtid, GtidSet):
        return len(executed - gtid)
    if not isinstance(gtid, Gtid):
        return None
    written = executed - before()
    if any(source != (gtid.server, gtid.tag) for source, _ in written.parts):
        return None
    return sum(max(0, high - max(low, gtid.number + 1)) for _, intervals in written.parts for low, high in intervals)

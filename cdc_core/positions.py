"""How far each client of a destination is behind its source. Asks the source and the cursors; moves nothing.

It needs no running instance: a destination that rests or failed tells as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cdc_core.meta.cursors import Cursors
from cdc_core.position import EntryPosition
from cdc_core.source.connection import Connection
from cdc_core.source.distance import Journals, ask, asking, gtids_before, transactions_after
from cdc_core.source.settings import SourceSettings


def positions(settings: SourceSettings, cursors: Cursors, clock: Callable[[], float]) -> dict[str, Any]:
    """`{destination, source, end, oldest, files, clients}`, as docs/architecture.md has it. `clock` in epoch seconds.

    Raises SourceError, CursorError.
    """
    kept = {client: cursors.read(client) for client in cursors.clients()}
    with asking(settings) as conn:
        journals = ask(conn)
        found = [
            _client(conn, journals, client, cursor.postion if cursor else None, clock())
            for client, cursor in kept.items()
        ]
    return {
        "destination": cursors.destination,
        "source": settings.address,
        "end": journals.end.to_dict(),
        "oldest": journals.logs[0].name,
        "files": len(journals.logs),
        "clients": [one | {"epoch": cursors.epoch(one["client_id"])} for one in found],
    }


def _client(
    conn: Connection, journals: Journals, client_id: int, cursor: EntryPosition | None, now: float
) -> dict[str, Any]:
    told: dict[str, Any] = {"client_id": client_id, "cursor": None, "purged": False}
    told |= dict.fromkeys(("bytes", "transactions", "seconds", "files_left"))
    if cursor is None:
        return told
    nbytes = journals.between(cursor, journals.end)
    transactions = None
    if nbytes is not None:
        transactions = transactions_after(
            cursor.gtid, journals.end.gtid, lambda: gtids_before(conn, cursor.journal_name)
        )
    age = max(0.0, now - cursor.timestamp / 1000) if cursor.timestamp else None
    return told | {
        "cursor": cursor.to_dict(),
        "purged": nbytes is None,
        "bytes": nbytes,
        "transactions": transactions,
        "seconds": 0.0 if nbytes == 0 else age,
        "files_left": journals.index(cursor),
    }

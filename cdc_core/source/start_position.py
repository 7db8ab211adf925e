"""Where to start: the cursor, else what is configured, else the server's current end. And whether that place exists."""

from __future__ import annotations

from cdc_core.position import EntryPosition
from cdc_core.source.connection import Connection
from cdc_core.source.framing import JOURNAL_START
from cdc_core.source.journals import check_exists, current_end


def find_start_position(
    conn: Connection, cursor: EntryPosition | None, configured: EntryPosition | None
) -> tuple[EntryPosition, str]:
    """The first that there is, and why it was taken. Raises PositionError rather than try the next."""
    if cursor is not None:
        check_exists(conn, cursor)
        return cursor, "the cursor"
    if configured is not None:
        position = EntryPosition(configured.journal_name, max(configured.position, JOURNAL_START))
        check_exists(conn, position)
        return position, "the configured journal and position"
    return current_end(conn), "the server's current end: there is no cursor, and no position is configured"

"""From where on a dump gets everything that its server writes."""

from __future__ import annotations

from cdc_core.position import EntryPosition
from cdc_core.source.connection import Connection
from cdc_core.source.journals import current_end
from cdc_core.source.settings import SourceSettings
from cdc_core.source.start.continuity import missing


def complete_from(conn: Connection, settings: SourceSettings, start: EntryPosition) -> EntryPosition | None:
    """A dump by position gets everything. By GTID the server leaves out what is in the set of `start`: once it has
    executed all of that, nothing of it comes after the end that its binlog has then. None before: a server that lacks
    some of the set may still write it."""
    if not (settings.by_gtid and start.gtid):
        return start
    return None if missing(conn, start.gtid) else current_end(conn)

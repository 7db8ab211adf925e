"""GTID sets and places on one server: the set behind a position, and the file in which what a set lacks begins."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pymysql

from cdc_core.binlog.events import HEADER, EventType
from cdc_core.binlog.gtid_columns import advanced
from cdc_core.errors import SourceUnavailable
from cdc_core.gtid import Gtids, GtidSet, parse_gtids
from cdc_core.position import EntryPosition
from cdc_core.source.connection import Connection, connect, source_error, version_of
from cdc_core.source.control import rotation, server_error
from cdc_core.source.cutter import CHECKSUM
from cdc_core.source.dump_command import begin_dump
from cdc_core.source.framing import JOURNAL_START
from cdc_core.source.journals import check_known, check_not_purged
from cdc_core.source.settings import SourceSettings
from cdc_core.source.stretch import read_stretch

_LOG_UNREADABLE = 1236


def set_at(conn: Connection, settings: SourceSettings, position: EntryPosition, stopped: Callable[[], bool]) -> Gtids:
    """What was executed before `position`: MariaDB says it; in MySQL what the journal begins with, and its GTIDs."""
    flavor = version_of(conn).flavor
    if flavor == "mariadb":
        with conn.cursor() as cursor:
            cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (position.journal_name, position.position))
            return parse_gtids(str(cursor.fetchall()[0][0] or ""), flavor)
    found: Gtids = GtidSet()
    start = EntryPosition(position.journal_name, JOURNAL_START)
    with closing(read_stretch(settings, start, None, stopped)) as blocks:
        for block in blocks:
            for event in block.index[block.index["type"] == EventType.PREVIOUS_GTIDS]:
                body = block.data[event["offset"] + HEADER : event["offset"] + event["length"]]
                found = GtidSet.decode(body.tobytes())
            before = block.index["end"] <= position.position
            found = advanced(found, block.data, block.index[before])
            if block.end >= position.position:
                break
    return found


def begin_of(conn: Connection, settings: SourceSettings, gtids: Gtids) -> EntryPosition:
    """The start of the file that the server sends first to who has `gtids`. Raises PositionError where some of what is
    lacking was purged, and for a set that is not this server's."""
    check_known(conn, gtids)
    if isinstance(gtids, GtidSet):
        check_not_purged(conn, gtids)
    own = replace(settings, slave_id=0, by_gtid=True).identified()
    probe = connect(own)
    try:
        begin_dump(probe, own, version_of(probe), EntryPosition("", JOURNAL_START, gtid=str(gtids)), wait=False)
        while True:
            packet = probe._read_packet().get_all_data()  # type: ignore[no-untyped-call]
            if packet[0]:
                raise SourceUnavailable("the server ended the dump", place=own.address, hint="It is tried again.")
            if packet[5] == EventType.ROTATE:
                break
    except pymysql.err.MySQLError as error:
        if error.args[0] == _LOG_UNREADABLE:
            raise server_error(_LOG_UNREADABLE, str(error.args[-1]), str(gtids)) from error
        raise source_error(error, own) from error
    finally:
        probe._force_close()  # type: ignore[attr-defined]
    # what checksums we asked for counts until the FORMAT_DESCRIPTION
    name, _ = rotation(packet[1:-CHECKSUM], own.address)
    return EntryPosition(name, JOURNAL_START, gtid=str(gtids))

"""GTID sets on one server: the set executed before a position, and the first file that a set needs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import numpy as np
import pymysql

from cdc_core.binlog.block import BlockSlice
from cdc_core.binlog.events import CHECKSUM, HEADER, EventType
from cdc_core.binlog.gtid_events import add_gtids
from cdc_core.errors import SourceUnavailable
from cdc_core.gtid import Gtids, GtidSet, parse_gtids
from cdc_core.position import JOURNAL_START, EntryPosition
from cdc_core.source.connection import Connection, connect, source_error, version_of
from cdc_core.source.control import rotation, server_error
from cdc_core.source.dump_command import begin_dump
from cdc_core.source.journal_range import read_range
from cdc_core.source.journals import check_known, check_not_purged, purged_gtids
from cdc_core.source.settings import SourceSettings

_LOG_UNREADABLE = 1236


def executed_before(
    conn: Connection, settings: SourceSettings, position: EntryPosition, stopped: Callable[[], bool]
) -> Gtids:
    """The set that was executed before `position`. MariaDB is asked for it; in MySQL it is the set at the start of the
    journal, and the GTIDs up to the position. A server that was provisioned names in `gtid_purged` what no journal of
    it has: that is part of the set everywhere."""
    flavor = version_of(conn).flavor
    if flavor == "mariadb":
        with conn.cursor() as cursor:
            cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (position.journal_name, position.position))
            return parse_gtids(str(cursor.fetchall()[0][0] or ""), flavor)
    found: Gtids = GtidSet()
    purged = purged_gtids(conn)
    start = EntryPosition(position.journal_name, JOURNAL_START)
    with closing(read_range(settings, start, None, stopped)) as blocks:
        for block in blocks:
            for event in block.index[block.index["type"] == EventType.PREVIOUS_GTIDS]:
                body = block.data[event["offset"] + HEADER : event["offset"] + event["length"]]
                found = GtidSet.decode(body.tobytes())
            before = int(np.searchsorted(block.index["end"], position.position, side="right"))
            found = add_gtids(found, BlockSlice(block, 0, before))
            if block.end >= position.position:
                break
    return found | purged  # type: ignore[operator]


def first_journal(conn: Connection, settings: SourceSettings, gtids: Gtids) -> EntryPosition:
    """The start of the first file that the server sends to a replica with `gtids`. Raises PositionError when missing
    transactions were purged, or the set is not one of this server."""
    check_known(conn, gtids)
    if isinstance(gtids, GtidSet):
        check_not_purged(conn, gtids)
    own = replace(settings, slave_id=0, by_gtid=True).identified()
    probe = connect(own)
    try:
        begin_dump(probe, own, version_of(probe), EntryPosition("", JOURNAL_START, gtid=gtids), wait=False)
        while True:
            packet = probe._read_packet().get_all_data()  # type: ignore[no-untyped-call]
            if packet[0]:
                raise SourceUnavailable(
                    "the server ended the dump", place=own.address, hint="The destination tries again."
                )
            if packet[5] == EventType.ROTATE:
                break
    except pymysql.err.MySQLError as error:
        if error.args[0] == _LOG_UNREADABLE:
            raise server_error(_LOG_UNREADABLE, str(error.args[-1]), str(gtids)) from error
        raise source_error(error, own) from error
    finally:
        probe._force_close()  # type: ignore[attr-defined]
    # until the FORMAT_DESCRIPTION events have the checksum that we asked for
    name, _ = rotation(packet[1:-CHECKSUM], own.address)
    return EntryPosition(name, JOURNAL_START, gtid=gtids)

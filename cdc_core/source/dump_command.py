"""Asks the server for its binlog: session variables, registration as a replica, COM_BINLOG_DUMP by file and position,
or by GTID: COM_BINLOG_DUMP_GTID with the executed set, MariaDB's @slave_connect_state.

After `begin_dump` the connection speaks no more SQL; its socket carries the stream that a `Framer` cuts.
"""

from __future__ import annotations

import struct

from pymysql.constants import COMMAND

from cdc_core.gtid import GtidPosition, GtidSet
from cdc_core.position import EntryPosition
from cdc_core.source.checks import ServerInfo
from cdc_core.source.connection import Connection, ServerVersion
from cdc_core.source.framing import JOURNAL_START, Framer
from cdc_core.source.settings import SourceSettings

_MAX_OFFSET = (1 << 32) - 1  # the command has 32 bits for the offset
_NON_BLOCK = 1
_THROUGH_GTID = 4
_SEND_ANNOTATE_ROWS = 2  # MariaDB: without them the stream would have gaps
_WRITE_TIMEOUT = 86400  # the server waits this long while our ring is full


def begin_dump(
    conn: Connection,
    settings: SourceSettings,
    info: ServerInfo | ServerVersion,
    position: EntryPosition,
    *,
    wait: bool = True,
) -> Framer:
    """Send all and return the framer for what comes. Without `wait` the server ends the dump at its binlog's end,
    rather than keep it until its next heartbeat when we have gone. Raises pymysql's errors.

    Beyond 4 GiB the journal is read from its start, and what lies before `position` is read over. By GTID the server
    begins where it likes, and leaves out what the set has.
    """
    by_gtid = settings.by_gtid and bool(position.gtid)
    known = 0 if by_gtid else position.position
    offset = known if JOURNAL_START <= known <= _MAX_OFFSET else JOURNAL_START
    statements = _session(settings, info)
    if by_gtid and info.flavor == "mariadb":
        statements += _connect_state(GtidPosition.parse(position.gtid))
    with conn.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    _send(conn, COMMAND.COM_REGISTER_SLAVE, _registration(settings))
    conn._read_packet()  # type: ignore[no-untyped-call]
    flags = (_SEND_ANNOTATE_ROWS if info.flavor == "mariadb" else 0) | (0 if wait else _NON_BLOCK)
    if by_gtid and info.flavor != "mariadb":
        _send(conn, COMMAND.COM_BINLOG_DUMP_GTID, _request_by_gtid(settings, flags, GtidSet.parse(position.gtid)))
    else:
        name = b"" if by_gtid else position.journal_name.encode()
        _send(conn, COMMAND.COM_BINLOG_DUMP, struct.pack("<IHI", offset, flags, settings.slave_id) + name)
    return Framer(
        position.journal_name,
        offset,
        checksum=True,
        block_bytes=settings.block_bytes,
        receive_buffer=settings.receive_buffer,
        since=known,
        gaps=by_gtid,
    )


def _request_by_gtid(settings: SourceSettings, flags: int, gtids: GtidSet) -> bytes:
    """No file name, its first offset, and the set of what we have."""
    encoded = gtids.encode()
    head = struct.pack("<HIIQ", flags | _THROUGH_GTID, settings.slave_id, 0, JOURNAL_START)
    return head + struct.pack("<I", len(encoded)) + encoded


def _connect_state(gtids: GtidPosition) -> list[str]:
    """Not strict: other replicas' domains and gaps are no concern of ours."""
    return [
        f"SET @slave_connect_state = '{gtids}'",
        "SET @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0",
    ]


def _session(settings: SourceSettings, info: ServerInfo | ServerVersion) -> list[str]:
    """Servers look for the old names or the new; both are set everywhere.

    CRC32 is what we can take, also from a server that writes none: it may change its mind while we read.
    """
    period = int(settings.heartbeat_seconds * 1_000_000_000)
    statements = [f"SET SESSION net_write_timeout = {_WRITE_TIMEOUT}"]
    for prefix in ("master", "source"):
        statements.append(f"SET @{prefix}_binlog_checksum = 'CRC32', @{prefix}_heartbeat_period = {period}")
    statements.append(f"SET @slave_uuid = '{settings.replica_uuid}', @replica_uuid = '{settings.replica_uuid}'")
    if info.flavor == "mariadb":
        statements.append("SET @mariadb_slave_capability = 4")
    return statements


def _registration(settings: SourceSettings) -> bytes:
    """Server id, host, no user, no password, port, rank, and the source's id, which it fills in itself."""
    host = settings.report_host.encode()[:60]
    return struct.pack("<IB", settings.slave_id, len(host)) + host + struct.pack("<BBHII", 0, 0, 0, 0, 0)


def _send(conn: Connection, command: int, payload: bytes) -> None:
    conn._execute_command(command, payload)  # type: ignore[attr-defined]

"""Asks the server for its binlog: sets session variables, registers as a replica, sends COM_BINLOG_DUMP.

By GTID it sends COM_BINLOG_DUMP_GTID with the executed set, or sets MariaDB's @slave_connect_state. After `begin_dump`
the connection takes no more SQL: its socket carries the stream that a `Framer` cuts.
"""

from __future__ import annotations

import struct

from pymysql.constants import COMMAND

from cdc_core.gtid import GtidPosition, GtidSet
from cdc_core.position import JOURNAL_START, EntryPosition
from cdc_core.source.checks import ServerInfo
from cdc_core.source.connection import Connection, ServerVersion
from cdc_core.source.framing import Framer
from cdc_core.source.settings import SourceSettings

_MAX_OFFSET = (1 << 32) - 1  # the command has 32 bits for the offset
_NON_BLOCK = 1
_THROUGH_GTID = 4
_SEND_ANNOTATE_ROWS = 2  # MariaDB: without them the stream would have gaps
_WRITE_TIMEOUT = 86400  # seconds: the server waits so long while our ring is full


def begin_dump(
    conn: Connection,
    settings: SourceSettings,
    info: ServerInfo | ServerVersion,
    position: EntryPosition,
    *,
    wait: bool = True,
) -> Framer:
    """Starts the dump and returns the framer for its stream. Raises pymysql's errors.

    Without `wait` the server ends the dump at the end of its binlog. For a position beyond 4 GiB the journal is read
    from its start, and the framer skips what lies before the position. By GTID the server chooses where to begin, and
    leaves out the transactions of the set.
    """
    by_gtid = settings.by_gtid and bool(position.gtid)
    known = 0 if by_gtid else position.position
    offset = known if JOURNAL_START <= known <= _MAX_OFFSET else JOURNAL_START
    statements = [_session(settings, info)]
    if by_gtid and info.flavor == "mariadb":
        statements += _connect_state(GtidPosition.parse(str(position.gtid)))
    with conn.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    _send(conn, COMMAND.COM_REGISTER_SLAVE, _registration(settings))
    conn._read_packet()  # type: ignore[no-untyped-call]
    flags = (_SEND_ANNOTATE_ROWS if info.flavor == "mariadb" else 0) | (0 if wait else _NON_BLOCK)
    if by_gtid and info.flavor != "mariadb":
        _send(conn, COMMAND.COM_BINLOG_DUMP_GTID, _request_by_gtid(settings, flags, GtidSet.parse(str(position.gtid))))
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
    """The body of COM_BINLOG_DUMP_GTID: no file name, the first offset, and the executed set."""
    encoded = gtids.encode()
    head = struct.pack("<HIIQ", flags | _THROUGH_GTID, settings.slave_id, 0, JOURNAL_START)
    return head + struct.pack("<I", len(encoded)) + encoded


def _connect_state(gtids: GtidPosition) -> list[str]:
    """Not strict: domains and gaps of other replicas do not matter here."""
    return [
        f"SET @slave_connect_state = '{gtids}'",
        "SET @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0",
    ]


def _session(settings: SourceSettings, info: ServerInfo | ServerVersion) -> str:
    """One statement, which sets both the old and the new names of variables, since servers look for either.

    Announces CRC32 also to a server without checksums: it may begin to write them while we read.
    """
    period = int(settings.heartbeat_seconds * 1_000_000_000)
    values = {"SESSION net_write_timeout": str(_WRITE_TIMEOUT)}
    for prefix in ("master", "source"):
        values |= {f"@{prefix}_binlog_checksum": "'CRC32'", f"@{prefix}_heartbeat_period": str(period)}
    for prefix in ("slave", "replica"):
        values[f"@{prefix}_uuid"] = f"'{settings.replica_uuid}'"
    if info.flavor == "mariadb":
        values["@mariadb_slave_capability"] = "4"
    return "SET " + ", ".join(f"{name} = {value}" for name, value in values.items())


def _registration(settings: SourceSettings) -> bytes:
    """The body of COM_REGISTER_SLAVE: server id, host, no user, no password, port, rank, and the source's id, which the
    server fills in."""
    host = settings.report_host.encode()[:60]
    return struct.pack("<IB", settings.slave_id, len(host)) + host + struct.pack("<BBHII", 0, 0, 0, 0, 0)


def _send(conn: Connection, command: int, payload: bytes) -> None:
    conn._execute_command(command, payload)  # type: ignore[attr-defined]

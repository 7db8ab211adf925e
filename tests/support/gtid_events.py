"""GTID events written by hand, as MySQL writes them."""

from __future__ import annotations

import uuid

from tests.support.binlog_files import Log

ONE, TWO = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "08cf1dcf-e5a7-11f1-a022-02fc00000001"


def packed(number: int) -> bytes:
    """A number as the server packs it."""
    more = next(n for n in range(9) if n == 8 or number < 1 << 7 * (n + 1))
    return (number << min(more + 1, 8) | (1 << more) - 1).to_bytes(more + 1, "little")


def event(gtid: str) -> tuple[int, bytes]:
    """Type and body of the event: GTID, or the tagged one of MySQL 9."""
    server, *tag, number = gtid.split(":")
    source = uuid.UUID(server).bytes
    if not tag:
        return 33, b"\1" + source + int(number).to_bytes(8, "little") + bytes(17)
    fields = b"\0\2\2" + b"".join(map(packed, source)) + b"\4" + packed(int(number) << 1)
    fields += b"\6" + packed(len(tag[0])) + tag[0].encode()
    return 42, packed(1) + packed(100) + packed(7) + fields


def log_of(*gtids: str) -> Log:
    """A log with an empty transaction for each GTID."""
    log = Log()
    for gtid in gtids:
        log.add(*event(gtid))
        log.query("BEGIN")
        log.add(16, bytes(8))
    return log

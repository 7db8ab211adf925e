"""What the framing itself must understand of a dump: FORMAT_DESCRIPTION, ROTATE, and the server's parting words.

Everything else that an event may say is the decoder's.
"""

from __future__ import annotations

import struct
import zlib
from typing import NoReturn

from cdc_core.errors import DecodeError, PositionError, SluiceError, SourceError, SourceUnavailable
from cdc_core.source.cutter import CHECKSUM, HEADER

DAMAGED_HINT = (
    "Read the journal with mysqlbinlog --verify-binlog-checksum: if it is damaged there too, continue from a sound "
    "position (canal.instance.master.journal.name and .position) and compare with sluice verify; "
    "if not, the network damaged it: start the destination again."
)
_MOST_DIGITS = 9  # of a journal's number: servers stop at 2**31
_LOG_UNREADABLE = 1236
_GOING_AWAY = {1053, 1080, 1152, 1158, 1159, 1160, 1161, 1317, 1927, 2006, 2013, 3169, 4031}
_NEW_START = (
    "Continue from the server's current end or from a journal that SHOW BINARY LOGS lists "
    "(canal.instance.master.journal.name and .position), then compare with sluice verify."
)


def checksummed(event: bytes, place: str) -> bool:
    """Whether a FORMAT_DESCRIPTION announces CRC32 checksums. The event comes whole, checksum included."""
    body = event[HEADER:]
    if len(body) < 57 + 1 + CHECKSUM or struct.unpack_from("<H", body)[0] != 4 or body[56] != HEADER:
        raise DecodeError("a binlog format other than version 4", place=place, hint="Use MySQL 5.7 or MariaDB 10.")
    algorithm = body[-CHECKSUM - 1]
    if algorithm > 1:
        raise DecodeError(
            f"unknown checksum algorithm {algorithm}", place=place, hint="Run SET GLOBAL binlog_checksum = 'CRC32'."
        )
    if algorithm == 0 and zlib.crc32(event[: -CHECKSUM - 1] + b"\x01") == int.from_bytes(event[-CHECKSUM:], "little"):
        raise DecodeError("a FORMAT_DESCRIPTION that was altered on its way", place=place, hint=DAMAGED_HINT)
    return algorithm == 1


def rotation(event: bytes, place: str) -> tuple[str, int]:
    """The journal and offset that a ROTATE, without its checksum, leads to."""
    position, name = int.from_bytes(event[HEADER : HEADER + 8], "little"), event[HEADER + 8 :]
    number = name.rpartition(b".")[2]
    if not name.isascii() or not number.isdigit() or len(number) > _MOST_DIGITS or position >> 62:
        raise DecodeError("a ROTATE event that names no place in a journal", place=place, hint=DAMAGED_HINT)
    return name.decode(), position


def raise_parting(payload: bytes, place: str) -> NoReturn:
    """Raise what the server ended the stream with: an error packet (0xff) or its end (0xfe)."""
    if payload[0] == 0xFE:
        raise SourceUnavailable("the server ended the dump", place=place, hint="It is tried again.")
    if len(payload) < 3:
        raise DecodeError("an error packet without its code", place=place, hint=DAMAGED_HINT)
    code = struct.unpack_from("<H", payload, 1)[0]
    text = payload[9:] if payload[3:4] == b"#" else payload[3:]
    raise server_error(code, text.decode("utf-8", "replace"), place)


def server_error(code: int, text: str, place: str) -> SluiceError:
    """The error for one that the server answers a dump with."""
    lower, message = text.lower(), f"the server ended the dump with error {code}: {text}"
    if code in _GOING_AWAY:
        return SourceUnavailable(message, place=place, hint="It is tried again.")
    if "same server" in lower:  # MariaDB has a code of its own for it
        hint = "Give each reader of this server its own canal.instance.mysql.slaveId (0: one is made up)."
        return SourceError("another replica took our server id: " + message, place=place, hint=hint)
    if code != _LOG_UNREADABLE:
        return SourceError(message, place=place, hint="Mend what the server names, then start the destination again.")
    if "max_allowed_packet" in lower and "bogus" not in lower:
        hint = "Run SET GLOBAL max_allowed_packet = 1073741824; if it is that already, the position starts no event."
        return SourceError(message, place=place, hint=hint)
    if "crc" in lower or "bogus data" in lower or "corrupt" in lower or "truncated" in lower:
        message = "the journal is damaged, or the position is no event's start: " + message
        return DecodeError(message, place=place, hint=DAMAGED_HINT)
    if "first log file name" in lower:
        return PositionError("the journal is no longer there: " + message, place=place, hint=_NEW_START)
    return PositionError(message, place=place, hint=_NEW_START)

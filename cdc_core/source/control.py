"""What the framing itself reads of a dump: FORMAT_DESCRIPTION, ROTATE, and the packet with which the server ends it.

The bodies of all other events are the decoder's.
"""

from __future__ import annotations

import struct
import zlib
from typing import NoReturn

from cdc_core.binlog.events import CHECKSUM, HEADER
from cdc_core.errors import BEGIN_ANEW, DecodeError, PositionError, SluiceError, SourceError, SourceUnavailable

DAMAGED_HINT = (
    "Read the journal with mysqlbinlog --verify-binlog-checksum: if it is damaged there too, continue from a sound "
    "position (canal.instance.master.journal.name and .position) and compare with sluice verify; "
    "if not, the network damaged it: start the destination again."
)
_MOST_DIGITS = 9  # of a journal's number: servers stop at 2**31
_LOG_UNREADABLE = 1236
_GOING_AWAY = {1053, 1080, 1152, 1158, 1159, 1160, 1161, 1317, 1927, 2006, 2013, 3169, 4031}


def checksummed(event: bytes, place: str) -> bool:
    """Whether a FORMAT_DESCRIPTION event, with its checksum, announces CRC32 checksums."""
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
    """The journal and offset that a ROTATE event, without its checksum, names."""
    position, name = int.from_bytes(event[HEADER : HEADER + 8], "little"), event[HEADER + 8 :]
    number = name.rpartition(b".")[2]
    if not name.isascii() or not number.isdigit() or len(number) > _MOST_DIGITS or position >> 62:
        raise DecodeError("a ROTATE event that names no place in a journal", place=place, hint=DAMAGED_HINT)
    return name.decode(), position


def raise_parting(payload: bytes, place: str) -> NoReturn:
    """Raises the error for the packet with which the server ended the stream: an error (0xff) or an end (0xfe)."""
    if payload[0] == 0xFE:
        raise SourceUnavailable("the server ended the dump", place=place, hint="The destination tries again.")
    if len(payload) < 3:
        raise DecodeError("an error packet without its code", place=place, hint=DAMAGED_HINT)
    code = struct.unpack_from("<H", payload, 1)[0]
    text = payload[9:] if payload[3:4] == b"#" else payload[3:]
    raise server_error(code, text.decode("utf-8", "replace"), place)


def server_error(code: int, text: str, place: str) -> SluiceError:
    """The error for the code and text with which the server ended a dump."""
    lower, message = text.lower(), f"the server ended the dump with error {code}: {text}"
    if code in _GOING_AWAY:
        return SourceUnavailable(message, place=place, hint="The destination tries again.")
    if "same server" in lower:  # MariaDB has another code for it
        hint = "Give each reader of this server its own canal.instance.mysql.slaveId (0: a random one)."
        return SourceError("another replica took our server id: " + message, place=place, hint=hint)
    if code != _LOG_UNREADABLE:
        return SourceError(message, place=place, hint="Fix what the server names, then start the destination again.")
    if "max_allowed_packet" in lower and "bogus" not in lower:
        hint = "Run SET GLOBAL max_allowed_packet = 1073741824; if it is that already, the position starts no event."
        return SourceError(message, place=place, hint=hint)
    if "more gtids than" in lower:
        message = "the server does not have transactions that were read from it: " + message
        return PositionError(message, place=place, hint=BEGIN_ANEW)
    if "crc" in lower or "bogus data" in lower or "corrupt" in lower or "truncated" in lower:
        message = "the journal is damaged, or no event begins at the position: " + message
        return DecodeError(message, place=place, hint=DAMAGED_HINT)
    if "first log file name" in lower:
        return PositionError("the journal is no longer there: " + message, place=place, hint=BEGIN_ANEW)
    return PositionError(message, place=place, hint=BEGIN_ANEW)

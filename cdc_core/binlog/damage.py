"""The error for an event whose bytes do not add up."""

from __future__ import annotations

from cdc_core.errors import DecodeError

HINT = (
    "Check the source's binlog with mysqlbinlog --verify-binlog-checksum. If it is sound, start the destination again."
)


def damaged(what: str, why: str, place: str = "") -> DecodeError:
    """`what` is the event, `why` what contradicts the format, `place` where the event starts."""
    return DecodeError(f"{what} is damaged: {why}", place=place, hint=HINT)

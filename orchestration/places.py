"""Where to set a cursor, as people write it: the place becomes the `to` of the service's reset."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

_POSITION = re.compile(r"(\S+\.\d+):(\d+)")


def target(
    at: str | None,
    timestamp: str | None,
    gtid: str | None,
    *,
    earliest: bool = False,
    latest: bool = False,
    anew: bool = False,
) -> str | int | dict[str, Any] | None:
    """The request's `to`; None unless exactly one place is given, and well formed."""
    if sum((at is not None, timestamp is not None, gtid is not None, earliest, latest, anew)) != 1:
        return None
    if gtid is not None:
        return {"gtid": gtid}
    if timestamp is not None:
        return _milliseconds(timestamp)
    if at is None:
        return "earliest" if earliest else "latest" if latest else "anew"
    parts = _POSITION.fullmatch(at)
    return {"journalName": parts[1], "position": int(parts[2])} if parts else None


def _milliseconds(timestamp: str) -> int | None:
    """From milliseconds, or from a date and time; without a time zone it is local time."""
    if timestamp.isascii() and timestamp.isdigit():
        return int(timestamp)
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return None

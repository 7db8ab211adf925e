"""Places of the binlog as a person writes them, in commands and in the launchpad: a position, or a time."""

from __future__ import annotations

import re
from datetime import datetime

from cdc_core.position import EntryPosition

_POSITION = re.compile(r"(\S+\.\d+):(\d+)")


def position_of(text: str) -> EntryPosition | None:
    """Returns the position that is written as FILE:OFFSET (mysql-bin.000007:1547); None for another text."""
    found = _POSITION.fullmatch(text)
    return EntryPosition(found[1], int(found[2])) if found else None


def moment_of(text: str) -> datetime | None:
    """Returns the moment of a date and time, which is local time without a zone; None for another text."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None

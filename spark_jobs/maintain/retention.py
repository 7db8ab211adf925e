"""How long a table keeps the files that its newest version does not need any more."""

from __future__ import annotations

import re
from collections.abc import Mapping

LEAST_HOURS = 168  # Delta's own default; a reader of an older version has a week
RETENTION = "delta.deletedFileRetentionDuration"
_PART = re.compile(r"(\d+)\s+(week|day|hour|minute|second)s?")
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}


def retention_hours(properties: Mapping[str, str]) -> int | None:
    """A week, or what the table's property says where that is longer. None for a property that is not understood:
    then no file may go."""
    text = properties.get(RETENTION, "").strip().lower().removeprefix("interval").strip()
    if not text:
        return LEAST_HOURS
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        return None
    seconds = sum(int(count) * _SECONDS[unit] for count, unit in parts)
    return max(LEAST_HOURS, -(-seconds // 3_600))

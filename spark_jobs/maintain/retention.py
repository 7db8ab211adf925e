"""Retention of a table's files that its newest version no longer needs, and of a change log's rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from cdc_core.errors import ConfigError

LEAST_HOURS = 168  # Delta's own default; a reader of an older version has a week
RETENTION = "delta.deletedFileRetentionDuration"
_LENGTH, _HOURS = re.compile(r"(\d+)\s*([dw])"), {"d": 24, "w": 168}
_PART = re.compile(r"(\d+)\s+(week|day|hour|minute|second)s?")
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}


def retention_hours(properties: Mapping[str, str]) -> int | None:
    """Returns a week, or the table's property if that is longer. None for a property that is not understood: then no
    file may be deleted."""
    text = properties.get(RETENTION, "").strip().lower().removeprefix("interval").strip()
    if not text:
        return LEAST_HOURS
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip():
        return None
    seconds = sum(int(count) * _SECONDS[unit] for count, unit in parts)
    return max(LEAST_HOURS, -(-seconds // 3_600))


@dataclass(frozen=True, slots=True)
class LogRetention:
    """The hours for which rows of change logs are kept; None for ever. `tables` maps patterns (`shop.*`, as in a shell)
    to hours; the first that fits counts, else `default`."""

    default: int | None = None
    tables: Mapping[str, int | None] = field(default_factory=dict)

    def of(self, table: str, *, alone: bool) -> int | None:
        """Returns the hours for the log of `database.table`. The rows of a log without a merged table (`alone`) are
        kept for ever unless a pattern names it, because nothing else has them."""
        for pattern, hours in self.tables.items():
            if fnmatchcase(table, pattern):
                return hours
        return None if alone else self.default


def log_hours(text: str) -> int | None:
    """Returns `30d` or `8w` in hours; None for "" and `forever`. Raises ConfigError, also below a week."""
    text = text.strip()
    if text in {"", "forever"}:
        return None
    length = _LENGTH.fullmatch(text)
    hours = int(length[1]) * _HOURS[length[2]] if length else 0
    if hours < LEAST_HOURS:
        hint = "Write 7d or more, 4w, or forever: older versions of a table need its log for a week."
        raise ConfigError(f"{text!r} is not a retention of a log", place="log_retention", hint=hint)
    return hours

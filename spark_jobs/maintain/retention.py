"""How long a table keeps the files that its newest version does not need any more, and a change log its rows."""

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


@dataclass(frozen=True, slots=True)
class LogRetention:
    """How long rows of change logs are kept, in hours; None for ever. `tables` maps patterns (`shop.*`, as in a shell)
    to hours; the first that fits counts, else `default`."""

    default: int | None = None
    tables: Mapping[str, int | None] = field(default_factory=dict)

    def of(self, table: str, *, alone: bool) -> int | None:
        """For the log of `database.table`. One without a merged table (`alone`) is all that there is: only a pattern
        says how long its rows are kept."""
        for pattern, hours in self.tables.items():
            if fnmatchcase(table, pattern):
                return hours
        return None if alone else self.default


def log_hours(text: str) -> int | None:
    """`30d` or `8w` in hours; None for "" and `forever`. Raises ConfigError, also below a week."""
    text = text.strip()
    if text in {"", "forever"}:
        return None
    length = _LENGTH.fullmatch(text)
    hours = int(length[1]) * _HOURS[length[2]] if length else 0
    if hours < LEAST_HOURS:
        hint = "Write 7d or more, 4w, or forever: older versions of a table need its log for a week."
        raise ConfigError(f"{text!r} is not a retention of a log", place="log_retention", hint=hint)
    return hours

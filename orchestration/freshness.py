"""The freshness that a destination declares: `30s`, `5m`, `asap`, or a cron expression."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdc_core.errors import ConfigError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LENGTH = re.compile(r"(\d+)\s*([smh])")
_LONG_LENGTH = re.compile(r"(\d+)\s*([smhd])")


@dataclass(frozen=True, slots=True)
class Freshness:
    """`seconds` after which a row is in the lake at the latest, 0 if nothing is declared. `asap`: there is always a run
    that waits for rows. `cron`: runs start by the clock."""

    seconds: float = 0.0
    asap: bool = False
    cron: str = ""


def parse_freshness(text: str | None) -> Freshness:
    """Raises ConfigError."""
    text = (text or "").strip()
    if not text:
        return Freshness()
    if text == "asap":
        return Freshness(asap=True)
    if (length := _LENGTH.fullmatch(text)) and int(length[1]):
        return Freshness(float(int(length[1]) * _UNITS[length[2]]))
    from orchestration.internals import is_valid_cron_schedule  # it is Dagster's

    if is_valid_cron_schedule(text):
        return Freshness(cron=text)
    raise ConfigError(
        f"{text!r} is not a freshness",
        place="freshness",
        hint='Write 30s, 5m, 1h, asap, or a cron expression ("0 3 * * *").',
    )


def parse_length(text: str) -> float:
    """The seconds of `30s`, `5m`, `12h` or `2d`. Raises ValueError, as pydantic expects it."""
    length = _LONG_LENGTH.fullmatch(text.strip())
    if not length or not int(length[1]):
        raise ValueError("is not a time; write 30s, 5m, 12h or 2d")
    return float(int(length[1]) * _UNITS[length[2]])

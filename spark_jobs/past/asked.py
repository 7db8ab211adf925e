"""The part of the past that a person asks for: batches, a position, a transaction, a time, or what ran between two."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from cdc_core.errors import ConfigError, PositionError
from cdc_core.position import EntryPosition
from cdc_core.written import moment_of, position_of
from spark_jobs.past.noted import PastBatches, Span

_BATCH = re.compile(r"(\d{1,18})(?:\.\.(\d{1,18}))?")  # as many digits as the ledger can have


@dataclass(frozen=True, slots=True)
class AskedPast:
    """What is asked for: one of `batch` (`N` or `N..M`), `position`, `gtid`, `time`; or `since` and `until`, of which
    either may be empty."""

    batch: str = ""
    position: str = ""
    gtid: str = ""
    time: str = ""
    since: str = ""
    until: str = ""

    def span(self, batches: PastBatches) -> Span:
        """Returns the span. Raises ConfigError for a text that is not understood, and for what the ledger lacks."""
        if self.batch:
            first, last = self.numbers
            return batches.numbered(first, last)
        if self.position:
            return batches.at(asked_position(self.position))
        if self.since or self.until:
            since = _moment(self.since, "--since") if self.since else None
            return batches.ran_between(since, _moment(self.until, "--until") if self.until else None)
        return batches.of_gtid(self.gtid) if self.gtid else batches.ran_at(_moment(self.time))

    @property
    def numbers(self) -> tuple[int, int]:
        """The first and the last batch. Raises ConfigError."""
        found = _BATCH.fullmatch(self.batch)
        if found is None:
            raise ConfigError(f"{self.batch!r} is not a batch", place="--batch", hint="Give a number or two: 811..815.")
        return int(found[1]), int(found[2] or found[1])

    @property
    def text(self) -> str:
        """As it was asked."""
        window = " to ".join([self.since or "the beginning", self.until or "now"]) if self.since or self.until else ""
        named = {"batch": self.batch, "position": self.position, "transaction": self.gtid, "time": self.time or window}
        return ", ".join(f"{name} {value}" for name, value in named.items() if value)


def asked_position(text: str) -> EntryPosition:
    """Returns the position that a person wrote. Raises ConfigError."""
    made = position_of(text)
    if made is None:
        hint = "Give a journal and an offset: mysql-bin.000007:1547."
        raise ConfigError(f"{text!r} is not a position", place="--position", hint=hint)
    try:
        made.version()
    except PositionError as error:
        raise ConfigError(error.message, place="--position", hint=error.hint) from error
    return made


def _moment(text: str, place: str = "--time") -> datetime:
    moment = moment_of(text)
    if moment is None:
        hint = "Give a date and time: 2026-11-26T21:30:00, or with +00:00 at its end for UTC."
        raise ConfigError(f"{text!r} is not a time", place=place, hint=hint)
    return moment

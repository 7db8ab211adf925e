"""Decides what is news: of what is wrong now, and of what was said before. Pure; times are in epoch seconds.

A problem that lasts becomes an open incident. Each receiver gets one message that it began and one that it ended. The
second one is sent after a quiet time, which doubles each time that the problem comes back, so one that comes and goes
stays one incident. What is said is noted only after it was sent: if Dagster is killed in between, it is said twice.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

from cdc_core.retry import pause_after
from orchestration.alerts.kinds import WORDS, Kind

QUIET, LONGEST_QUIET = 60.0, 3600.0  # seconds without the trouble until its end is said; more, the more often it came
FORGOTTEN = 7200.0  # seconds after the end until a trouble counts as new
APART = 300.0  # seconds between two messages of one kind, to one receiver, of beginnings; and of ends
MOST = 100  # incidents of one kind that are followed: the sensor's state is written at each tick
_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 900.0  # seconds until a message that was not sent is tried again


@dataclass(frozen=True, slots=True)
class Condition:
    """What is wrong with `subject`: a table, a job, a check, or the destination. `page` is a path on Dagster's page.
    `since` is None where only the one who looks knows how long it lasts."""

    kind: Kind
    subject: str
    text: str
    remedy: str = ""
    since: float | None = None
    page: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.subject}"


@dataclass(frozen=True, slots=True)
class Look:
    """What is wrong now; and the kinds, and single keys, that could not be looked at: their incidents stay."""

    conditions: Sequence[Condition] = ()
    unknown: Collection[Kind] = frozenset()
    unknown_keys: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Incident:
    """A trouble that `began`, and was `seen` first, at these times. It is `open` once it has lasted. `gone`: since when
    it is not seen any more. `times` it was ended before."""

    began: float
    seen: float
    gone: float | None = None
    open: bool = False
    times: int = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """The messages that a receiver got: the incidents that it thinks are open, with their beginning; and the time of
    the last message of each kind. After `failures` in a row nothing is sent before `retry`."""

    said: Mapping[str, float] = field(default_factory=dict)
    last: Mapping[str, float] = field(default_factory=dict)
    failures: int = 0
    retry: float = 0.0


@dataclass(frozen=True, slots=True)
class News:
    """What belongs into one message: the troubles of one kind that began, or that ended, by their keys. `total`: how
    many they are, with those that are not followed."""

    kind: Kind
    ended: bool
    keys: tuple[str, ...]
    total: int = 0

    @property
    def name(self) -> str:
        return f"{self.kind}-" if self.ended else f"{self.kind}+"


@dataclass(frozen=True, slots=True)
class State:
    """All that is known from tick to tick: incidents by key, and receivers by name."""

    incidents: Mapping[str, Incident] = field(default_factory=dict)
    heard: Mapping[str, Heard] = field(default_factory=dict)

    @classmethod
    def from_cursor(cls, cursor: str | None) -> State:
        """A cursor that cannot be read counts as none: what lasts is said again."""
        try:
            found = json.loads(cursor or "{}")
            incidents = {key: Incident(*one) for key, one in found.get("incidents", {}).items()}
            return cls(incidents, {name: Heard(**one) for name, one in found.get("heard", {}).items()})
        except (ValueError, TypeError, AttributeError):
            return cls()

    @property
    def cursor(self) -> str:
        incidents = {key: astuple(one) for key, one in self.incidents.items()}
        names = Heard.__dataclass_fields__
        heard = {name: {one: getattr(of, one) for one in names} for name, of in self.heard.items()}
        return json.dumps({"incidents": incidents, "heard": heard}, sort_keys=True)


def kind_of(key: str) -> Kind | None:
    """The kind of a key, None for one that this version does not know."""
    name = key.partition(":")[0]
    return Kind(name) if name in Kind.__members__.values() else None


def subject_of(key: str) -> str:
    return key.partition(":")[2]


def follow(incidents: Mapping[str, Incident], look: Look, now: float) -> dict[str, Incident]:
    """Returns the incidents after a look."""
    found = {one.key: one for one in followed(incidents, look.conditions)}
    after: dict[str, Incident] = {}
    for key in {**incidents, **found}:
        kind, before = kind_of(key), incidents.get(key)
        if kind is None:
            continue
        if key in found:
            after[key] = _seen(before, found[key], now)
        elif before is not None and (kind in look.unknown or key in look.unknown_keys):
            after[key] = before
        elif before is not None and (absent := _absent(before, now)):
            after[key] = absent
    return after


def followed(incidents: Mapping[str, Incident], conditions: Iterable[Condition]) -> list[Condition]:
    """Those that are followed: at most `MOST` of a kind, first those that are known."""
    chosen: list[Condition] = []
    counts = dict.fromkeys(Kind, 0)
    for one in sorted(conditions, key=lambda one: (one.key not in incidents, one.subject)):
        counts[one.kind] += 1
        if counts[one.kind] <= MOST:
            chosen.append(one)
    return chosen


def _seen(before: Incident | None, condition: Condition, now: float) -> Incident:
    wait = WORDS[condition.kind].wait
    if before is not None and before.open:
        return replace(before, gone=None)
    if before is not None and before.gone is None:
        seen = min(before.seen, now)  # the clock may have been set back
        return replace(before, seen=seen, open=now - seen >= wait)
    began = now if condition.since is None else min(condition.since, now)
    return Incident(began, now, open=wait <= 0, times=before.times if before else 0)


def _absent(before: Incident, now: float) -> Incident | None:
    gone = now if before.gone is None else min(before.gone, now)
    if before.open:
        ends = now - gone >= pause_after(before.times + 1, QUIET, LONGEST_QUIET)
        return replace(before, gone=gone, open=not ends, times=before.times + ends)
    forgotten = before.times == 0 or now - gone >= FORGOTTEN
    return None if forgotten else replace(before, gone=gone)


def news(
    incidents: Mapping[str, Incident], look: Look, heard: Heard, kinds: Collection[Kind], now: float
) -> list[News]:
    """Returns the news for a receiver, the most urgent first. Nothing while it waits after a failure."""
    if now < heard.retry <= now + _LONGEST_PAUSE:
        return []
    there = {one.key for one in look.conditions}
    began = [key for key, one in incidents.items() if one.open and key in there and key not in heard.said]
    ended = [key for key in heard.said if not ((one := incidents.get(key)) and one.open)]
    found = []
    for kind in Kind:
        if kind not in kinds:
            continue
        for keys, ends in ((began, False), (ended, True)):
            mine = tuple(sorted(key for key in keys if kind_of(key) == kind))
            more = 0 if ends else sum(one.kind == kind and one.key not in incidents for one in look.conditions)
            message = News(kind, ends, mine, len(mine) + more)
            if mine and not now - APART < heard.last.get(message.name, -APART) <= now:
                found.append(message)
    return sorted(found, key=lambda one: one.ended)


def told(heard: Heard, said: News, incidents: Mapping[str, Incident], now: float) -> Heard:
    """Returns what the receiver knows once it has this message."""
    left = {key: began for key, began in heard.said.items() if key not in said.keys}
    new = {} if said.ended else {key: incidents[key].began for key in said.keys}
    return Heard(left | new, {**heard.last, said.name: now})


def not_told(heard: Heard, now: float) -> Heard:
    """The same after a message that could not be sent: later after each."""
    failures = heard.failures + 1
    return replace(heard, failures=failures, retry=now + pause_after(failures, _FIRST_PAUSE, _LONGEST_PAUSE))


def kept(heard: Heard, kinds: Collection[Kind], now: float) -> Heard:
    """Returns the same without the kinds that the receiver no longer gets, and without old times."""
    said = {key: began for key, began in heard.said.items() if kind_of(key) in kinds}
    return replace(heard, said=said, last={name: at for name, at in heard.last.items() if now - APART < at <= now})

"""Writes the messages: what is wrong, where, since when, and what to do; the first ten of many. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestration.alerts.incidents import Condition, Heard, Incident, News, subject_of
from orchestration.alerts.kinds import WORDS, Kind

SHOWN = 10  # things of one message that are named
_LONGEST, _REMEDIES = 400, 3  # characters of a text, and different remedies
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Message:
    """A message as a receiver gets it. `level` is a notification type of apprise. Messages of one `shared` text, which
    several destinations have to say, are sent to a receiver once."""

    title: str
    body: str
    level: str
    shared: str = ""


def written(
    destination: str,
    news: News,
    conditions: Mapping[str, Condition],
    incidents: Mapping[str, Incident],
    heard: Heard,
    now: float,
    page: str = "",
) -> Message:
    """Returns the message about the news. `page`: the URL of Dagster's page, or ""."""
    words = WORDS[news.kind]
    whole = news.kind == Kind.SERVICE  # whose trouble is that of all its destinations
    about = f"Sluice {destination}" if not whole else "Sluice"
    title = f"{about}: {words.title(news.total, ended=news.ended)}"
    if news.ended:
        lines = [_ended(key, heard.said[key], incidents.get(key), now) for key in news.keys[:SHOWN]]
        known: list[Condition] = []
    else:
        known = [conditions[key] for key in news.keys[:SHOWN]]
        lines = [_began(one, incidents[one.key].began) for one in known]
    if more := news.total - len(lines):
        lines.append(f"and {more:,} more")
    parts = ["\n".join(lines), _remedies(known), _link(known, page)]
    shared = f"{news.name} {' '.join(news.keys)}" if whole else ""
    return Message(title, "\n\n".join(part for part in parts if part), "success" if news.ended else words.level, shared)


def test_message(destination: str, kinds: Sequence[Kind]) -> Message:
    """Returns what `sluice alert --test` sends."""
    told = ", ".join(kinds)
    return Message(f"Sluice {destination}: a test", f"Alerts of {destination} reach you here: {told}.", "info")


def moment(at: float) -> str:
    """The time as people read it."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def length(seconds: float) -> str:
    """So many seconds as people say it."""
    for unit, size in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _began(condition: Condition, since: float) -> str:
    return f"{condition.subject}, since {moment(since)}: {_short(condition.text)}"


def _ended(key: str, since: float, incident: Incident | None, now: float) -> str:
    end = incident.gone if incident and incident.gone is not None else now
    return f"{subject_of(key)}: it lasted {length(end - since)}, from {moment(since)}"


def _remedies(conditions: Sequence[Condition]) -> str:
    """What to do, each once."""
    found = list(dict.fromkeys(one.remedy for one in conditions if one.remedy))
    shown = [f"What to do: {_short(one)}" for one in found[:_REMEDIES]]
    return "\n".join(shown + (["The others differ: see the page."] if len(found) > _REMEDIES else []))


def _link(conditions: Sequence[Condition], page: str) -> str:
    paths = list(dict.fromkeys(one.page for one in conditions if one.page))
    return f"{page}/{paths[0]}" if page and paths else page


def _short(text: str) -> str:
    """One line, of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."

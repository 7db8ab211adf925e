"""When each trouble began, and the last ones that ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc_core.monitor.rules import Trouble, Verdict

_MOST_ENDED = 100


@dataclass(frozen=True, slots=True)
class Alarm:
    """A trouble that `began`, and `ended` if it is over; in epoch seconds."""

    trouble: Trouble
    began: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Alarms:
    """What is wrong, by key, and what was: the newest first."""

    now: Mapping[tuple[str, str, str], Alarm] = field(default_factory=dict)
    ended: tuple[Alarm, ...] = ()

    def after(self, verdict: Verdict, now: float) -> Alarms:
        """The same after a look. What could not be judged stays as it is."""
        found = {one.key: one for one in verdict.troubles}
        left = {key: one for key, one in self.now.items() if key in found or not verdict.knows(key)}
        for key, trouble in found.items():
            left[key] = replace(left[key], trouble=trouble) if key in left else Alarm(trouble, now)
        over = tuple(replace(one, ended=now) for key, one in self.now.items() if key not in left)
        return Alarms(left, (over + self.ended)[:_MOST_ENDED])

"""The result of one expectation in one commit, and its form in the commit's note."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.expectations.expectation import Severity

KEYS = 10  # examples that a result has


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """Of `rows` that were evaluated, `bad` failed the expectation `name`; `keys`: some of them, such as `id=5`. `why`:
    why it could not be evaluated, "" if it was. `accepted`: the reason for which a person let a block pass. `waiting`:
    how many rows that failed it are in the quarantine after the batch."""

    name: str
    severity: Severity
    rows: int = 0
    bad: int = 0
    keys: tuple[str, ...] = ()
    why: str = ""
    accepted: str = ""
    waiting: int = 0

    @property
    def passed(self) -> bool:
        return not (self.bad or self.why or self.waiting)

    @property
    def stops(self) -> bool:
        """Whether its table must not take the batch: it blocks, or it was to keep rows out and could not be
        evaluated."""
        if self.accepted or self.severity is Severity.WARN:
            return False
        return bool(self.why) or (self.severity is Severity.BLOCK and bool(self.bad))

    def __add__(self, other: ExpectationResult) -> ExpectationResult:
        """Returns the sum of two commits of one batch."""
        return replace(
            self,
            rows=self.rows + other.rows,
            bad=self.bad + other.bad,
            keys=tuple(dict.fromkeys(self.keys + other.keys))[:KEYS],
            why=other.why or self.why,
            accepted=other.accepted or self.accepted,
            waiting=other.waiting,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns it for a note, without what is not said."""
        facts = {"keys": list(self.keys), "why": self.why, "accepted": self.accepted, "waiting": self.waiting}
        said = {name: value for name, value in facts.items() if value}
        return {"severity": self.severity.value, "rows": self.rows, "bad": self.bad} | said

    @classmethod
    def of(cls, name: str, fields: Mapping[str, Any]) -> ExpectationResult:
        """Returns the result that a note has of the expectation `name`."""
        known = {**fields, "severity": Severity(fields["severity"]), "keys": tuple(fields.get("keys", ()))}
        return cls(name, **known)


def summed(found: Iterable[ExpectationResult]) -> tuple[ExpectationResult, ...]:
    """Returns the results by expectation, each once."""
    by_name: dict[str, ExpectationResult] = {}
    for one in found:
        by_name[one.name] = by_name[one.name] + one if one.name in by_name else one
    return tuple(by_name.values())

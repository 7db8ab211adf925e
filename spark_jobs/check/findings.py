"""Judges a cluster by the facts of its driver and of its executors. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.check.on_executor import Asked, Facts

_MOST_SKEW = 5.0  # seconds
_INSTALL = "Install on every executor what the driver has: pip install"


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` was looked at, `where`, what was `found`, and the `remedy`, "" if nothing is wrong. A `warning` keeps
    nothing from starting."""

    what: str
    where: tuple[str, ...]
    found: str
    remedy: str = ""
    warning: bool = False

    @property
    def good(self) -> bool:
        return not self.remedy


@dataclass(frozen=True, slots=True)
class Looked:
    """The facts of one executor, and when the driver asked for them and had the answer, by its own clock."""

    facts: Facts
    asked: float
    answered: float

    @property
    def skew(self) -> float:
        """Returns the seconds by which its clock is at least ahead of the driver's; below 0: behind."""
        clock = self.facts.clock
        return max(0.0, clock - self.answered) or min(0.0, clock - self.asked)


def findings(asked: Asked, driver: Facts, executors: Sequence[Looked], seen: Collection[str]) -> list[Finding]:
    """Returns the findings, ordered by what was looked at; equal findings of several executors are one. `seen`: the
    executors' files that the driver sees in the lake's folder."""
    hosts: dict[tuple[str, str, str], set[str]] = {}
    for look in executors:
        for found in _of(asked, driver, look, seen):
            hosts.setdefault(found, set()).add(look.facts.host)
    order = list(dict.fromkeys(what for what, _, _ in hosts))
    return [
        Finding(what, tuple(sorted(hosts[what, found, remedy])), found, remedy)
        for what, found, remedy in sorted(hosts, key=lambda one: order.index(one[0]))
    ]


def _of(asked: Asked, driver: Facts, look: Looked, seen: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yields what was looked at, what was found, and the remedy."""
    facts = look.facts
    yield "Python", f"{facts.python}, {facts.executable}", ""
    for name in asked.packages:
        here, there = driver.versions[name], facts.versions[name]
        wrong = "" if there == here else f"{_INSTALL} {name}=={here} (docs/cluster.md)."
        yield name, f"{there or 'not installed'}{'' if there == here else f', and {here} here'}", wrong
    yield ("this project", *_project(driver, facts))
    yield ("the lake", *_lake(asked, facts, seen))
    if asked.door:
        hint = f"Let executors reach {asked.door}, or name an address that they reach: flight in defs.yaml, --service."
        yield ("the Flight door", *_reached(asked.door, facts.door, hint))
    if asked.source:
        hint = f"Let executors reach {asked.source}, or read on the driver: --read-on driver."
        yield ("the source", *_reached(asked.source, facts.source, hint))
    skew = look.skew
    late = "Set the clocks by NTP: commits have the executors' time." if abs(skew) > _MOST_SKEW else ""
    yield "the clock", f"{abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}" if late else "as here", late


def _project(driver: Facts, facts: Facts) -> tuple[str, str]:
    if not facts.code:
        return "not installed", f"{_INSTALL} the same wheel of sluice-cdc (docs/cluster.md)."
    if facts.code != driver.code:
        return f"another version than here ({facts.code}, {driver.code})", f"{_INSTALL} the same wheel of sluice-cdc."
    if facts.imports:
        return facts.imports, f"{_INSTALL} sluice-cdc[spark] with all that it needs (docs/cluster.md)."
    return "as here", ""


def _lake(asked: Asked, facts: Facts, seen: Collection[str]) -> tuple[str, str]:
    if facts.lake:
        hint = "Give executors the lake's path, or the store's credentials and endpoint (spark.executorEnv.*)."
        return facts.lake, hint
    if facts.file not in seen:
        return f"its file in {asked.folder} is not visible here", "Name a lake that all hosts share."
    return "read and written by delta-rs", ""


def _reached(address: str, error: str, hint: str) -> tuple[str, str]:
    return (error, hint) if error else (f"reached at {address}", "")

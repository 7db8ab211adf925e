"""Samples of many values over time: taken by probes, kept in a file a line each, read as a series for each value.

A name is `PART: WHAT`. A part that was started again begins a new life, and its values of before are no part of its
series. A probe whose subject is away at the moment gives nothing, and the series has a gap there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.support.growth import Series
from tests.support.threads import Over

Probe = Callable[[], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """`at`: seconds since the beginning. `lives`: of the parts that can be started again, which process it is."""

    at: float
    values: Mapping[str, float]
    lives: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Sampler:
    """Asks the probes, and appends what they say to a file. `lives` gives the process of each part that runs. `error`:
    what ended `run`."""

    probes: Sequence[Probe]
    lives: Callable[[], Mapping[str, int]]
    file: Path
    seconds: float = 5.0
    clock: Callable[[], float] = time.monotonic
    began: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("")

    def run(self, over: Over) -> None:
        """Samples until it is over, at once and then again and again."""
        due = self.clock()
        try:
            while True:
                self.sample()
                due = max(due + self.seconds, self.clock())
                if over(due - self.clock()):
                    return
        except Exception as error:
            self.error = error
            raise

    def sample(self) -> Sample:
        at, values = self.clock() - self.began, dict[str, float]()
        lives = dict(self.lives())
        for probe in self.probes:
            values |= {name: float(value) for name, value in probe().items()}
        taken = Sample(round(at, 2), values, lives)
        self.samples.append(taken)
        with self.file.open("a") as file:
            file.write(json.dumps(asdict(taken)) + "\n")
        return taken


def away(*errors: type[Exception]) -> Callable[[Probe], Probe]:
    """Makes a probe that says nothing while its subject is away, which shows as one of these errors."""

    def patient(probe: Probe) -> Probe:
        def asked() -> Mapping[str, float]:
            try:
                return probe()
            except errors:
                return {}

        return asked

    return patient


class Seldom:
    """A probe that costs much, asked every so many samples; in between it says nothing."""

    def __init__(self, probe: Probe, every: int) -> None:
        self._probe, self._every, self._asked = probe, every, 0

    def __call__(self) -> Mapping[str, float]:
        self._asked += 1
        return self._probe() if self._asked % self._every == 1 or self._every == 1 else {}


class Counted:
    """Counters of a process that begin at 0 when it is started again, as counters that go on."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._last: dict[str, float] = {}
        self._sums: dict[str, float] = {}

    def __call__(self) -> Mapping[str, float]:
        found = dict(self._probe())
        for name, value in found.items():
            last = self._last.get(name, 0.0)
            self._sums[name] = self._sums.get(name, 0.0) + (value - last if value >= last else value)
        self._last |= found
        return {name: self._sums[name] for name in found}


def read_samples(file: Path) -> list[Sample]:
    """Returns the samples of a file, of which the last line may be torn."""
    return list(_read(file.read_text().splitlines(keepends=True)))


def _read(lines: Iterable[str]) -> Iterator[Sample]:
    for line in lines:
        if line.endswith("\n"):
            fields: dict[str, Any] = json.loads(line)
            yield Sample(fields["at"], fields["values"], fields["lives"])


def all_series(samples: Sequence[Sample]) -> dict[str, Series]:
    """Returns the series of each value, in its part's last life."""
    born: dict[str, float] = {}
    last: dict[str, int] = {}
    for sample in samples:
        for part, life in sample.lives.items():
            if last.get(part, life) != life:
                born[part] = sample.at
            last[part] = life
    points: dict[str, tuple[list[float], list[float]]] = {}
    for sample in samples:
        for name, value in sample.values.items():
            hours, values = points.setdefault(name, ([], []))
            if sample.at >= born.get(name.partition(":")[0], 0.0):
                hours.append(sample.at / 3600)
                values.append(value)
    return {name: Series(name, *both) for name, both in points.items()}

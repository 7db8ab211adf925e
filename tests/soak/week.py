"""A week in less: load, DDL, kills, rewinds and snapshots on a live stack whose times are fast, and what grows in it.

At the end source and lake are compared, and each sampled value is judged: a slope that does not end is a fault.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from orchestration.stack.home import sluice_home
from tests.soak.stack import WeekStack
from tests.support.bank import DATABASE, TABLES
from tests.support.growth_report import failures, reasons, table, wrapped
from tests.support.samples import Sample, Sampler, read_samples
from tests.support.threads import beside
from tests.support.week_events import LATEST, WATCHED, Event, PassingTables, draw
from tests.support.week_measures import JOBS, KILLS, STATEMENTS, TRANSACTIONS, findings
from tests.support.week_pace import SLOW, Pace

LEAST_MINUTES = 20.0  # of which half is judged: less has too few samples
_SETTLE, _COMPARE = 900.0, 900.0  # seconds
_STILL = 120.0  # seconds without a sample, after which the sampler is taken for dead
_PLACES = 6  # that a rewind chooses from
_LOOK = 1.0

Say = Callable[[str], None]


class Fault(Exception):
    """The soak cannot go on, or has found something."""


class Week:
    """One soak. `state` is for the stack, `temp` for what its parts leave in TMPDIR, `file` for the samples."""

    def __init__(self, state: Path, temp: Path, file: Path, seed: int, minutes: float, say: Say) -> None:
        self.seconds, self.say = 60 * minutes, say
        self.events = draw(seed, self.seconds)
        self.stack = WeekStack(state, temp, Pace(self.seconds))
        self.tables, self._rng = PassingTables(seed), Random(seed)
        self.done = Counter[str]()
        self._file = file
        self._statements = 0
        self._places: list[tuple[str, int]] = []
        self._began = 0.0
        self._acts: dict[str, Callable[[], object]] = {
            "cut dump": self.stack.cut_dump,
            "ddl": self._ddl,
            "rewind": self._rewind,
            "snapshot": lambda: self.stack.launch("snapshot", tables=[self._some()]),
            "copy": lambda: self.stack.launch("copy", tables=[self._some()]),
            "maintain": lambda: self.stack.launch("maintain"),
        }

    def run(self) -> tuple[list[Sample], list[str]]:
        """Returns the samples, and what went wrong with the rows."""
        with ExitStack() as parts:
            self.stack.start(parts)
            sampler = Sampler([*self.stack.probes(), self._counts], self.stack.lives, self._file)
            self._began = time.monotonic()
            self.stack.bank.start()
            try:
                with beside(sampler.run):
                    self._live(sampler)
            finally:
                self.stack.bank.stop()
            self.say(f"the week is over: {dict(self.done)}, {self.stack.bank.transactions} transactions")
            return sampler.samples, self._differences()

    # -- the events

    def _live(self, sampler: Sampler) -> None:
        for event in self.events:
            self._until(event.at, sampler)
            if event.killed in WATCHED and time.monotonic() - self._began > LATEST * self.seconds:
                continue  # the judged half would have a part of its life alone
            self.say(f"{event.at:7.0f} s: {event.what}")
            self._act(event)
            self.done[event.what] += 1
            self._places = [*self._places[1 - _PLACES :], self.stack.mysql.position()]
        self._until(self.seconds, sampler)

    def _act(self, event: Event) -> None:
        if not event.killed:
            self._acts[event.what]()
            return
        self.stack.kill(event.killed)
        time.sleep(event.away)
        self.stack.restart(event.killed)

    def _until(self, at: float, sampler: Sampler) -> None:
        """Waits, and looks meanwhile whether all that should run does."""
        while (left := self._began + at - time.monotonic()) > 0:
            if ended := self.stack.ended():
                raise Fault(f"ended by itself: {', '.join(ended)}")
            for error in (self.stack.bank.error, sampler.error):
                if error is not None:
                    raise error
            now = time.monotonic() - sampler.began
            if now - (sampler.samples[-1].at if sampler.samples else 0.0) > _STILL:
                raise Fault("nothing is sampled any more")
            time.sleep(min(left, _LOOK))

    def _ddl(self) -> None:
        statements = self.tables.statements()
        self.stack.mysql.execute(*statements, database=DATABASE)
        self._statements += 1

    def _rewind(self) -> None:
        if self._places:
            self.stack.rewind(self._rng.choice(self._places))

    def _some(self) -> str:
        return f"{DATABASE}.{self._rng.choice(TABLES)}"

    def _counts(self) -> dict[str, float]:
        """What the soak itself has done, for which values may grow."""
        kills = sum(times for what, times in self.done.items() if what.startswith("kill "))
        jobs = sum(self.done[verb] for verb in ("snapshot", "copy", "maintain"))
        transactions = self.stack.bank.transactions
        return {KILLS: kills, STATEMENTS: self._statements, JOBS: jobs, TRANSACTIONS: transactions}

    # -- the verdict

    def _differences(self) -> list[str]:
        """The tables in which source and lake differ when all is drained."""
        self.stack.settle(_SETTLE)
        found = self.stack.compared((*TABLES, *self.tables.there), _COMPARE)
        return [str(row.to_dict()) for row in found if row.differences or row.error]


def soak(seed: int, minutes: float, say: Say) -> int:
    """Runs a week and reports it. The exit status: 1 for a slope without an end, or a difference."""
    home = sluice_home() / "soak"
    file = home / f"week-{seed}.jsonl"
    say(f"a week in {minutes:g} minutes, seed {seed}; samples: {file}")
    with _folders(home / "week") as (state, temp):
        samples, differences = Week(state, temp, file, seed, minutes, say).run()
    status = report(samples, minutes, say)
    for line in differences:
        say(f"DIFFERS: {line}")
    if status or differences:
        say(f"the stack's files: {state}")
        return 1
    shutil.rmtree(state)
    return 0


def report_again(file: Path, minutes: float, say: Say) -> int:
    """Reports the samples of an earlier soak."""
    return report(read_samples(file), minutes, say)


def report(samples: list[Sample], minutes: float, say: Say) -> int:
    pace, found = Pace(60 * minutes), findings(samples, 60 * minutes)
    failed = failures(found)
    for title, lines in (
        ("Time that is made fast:", pace.lines()),
        ("Time that is not:", [line for one in SLOW for line in wrapped(f"{one.what}: {one.why}")]),
        (f"Slopes of the last {minutes / 2:g} minutes:", table(found)),
        ("Reasons to grow:", reasons(found)),
        ("FAILS:" if failed else "No slope goes on.", [line for one in failed for line in wrapped(one)]),
    ):
        say("\n".join(["", title, *lines]))
    return 1 if failed else 0


@contextmanager
def _folders(state: Path) -> Iterator[tuple[Path, Path]]:
    """An empty folder for the stack, which stays, and one for temporary files, which TMPDIR names meanwhile. The path
    of the latter is short, as that of a socket must be."""
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True)
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="sluice-week-", ignore_cleanup_errors=True) as temp:
        os.environ["TMPDIR"], tempfile.tempdir = temp, None
        try:
            yield state, Path(temp)
        finally:
            tempfile.tempdir = None
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before

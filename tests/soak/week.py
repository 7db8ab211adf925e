"""A week in less: load, DDL, kills, rewinds, undos and snapshots on a live stack whose times are fast, and what grows.

At the end source and lake are compared, and each sampled value is judged: a slope that does not end is a fault.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from orchestration.stack.home import sluice_home
from tests.soak.stack import WeekStack
from tests.support.bank import DATABASE, TABLES
from tests.support.growth_report import WIDTH, failures, reasons, table, wrapped
from tests.support.samples import Sample, Sampler, read_samples
from tests.support.threads import beside
from tests.support.week_events import LATEST, WATCHED, Event, PassingTables, draw
from tests.support.week_measures import ACKED, GO, JOBS, KILLS, STATEMENTS, STAY, TRANSACTIONS, findings
from tests.support.week_pace import SLOW, Pace

LEAST_MINUTES = 20.0  # of which half is judged: what is shorter ends while heaps and caches fill
_SETTLE, _COMPARE = 900.0, 900.0  # seconds
_STILL = 300.0  # seconds without a sample, after which the sampler is taken for dead
_PLACES = 6  # that a rewind or a restore chooses from
_LOOK, _TELL, _LONG = 1.0, 60.0, 10.0  # seconds
_MOST_ROWS, _MOST_DDL = 4_000, 8  # that wait for the lake

Say = Callable[[str], None]


class Fault(Exception):
    """The soak cannot go on, or has found something."""


class Week:
    """One soak. `state` is for the stack, `temp` for what its parts leave in TMPDIR, `file` for the samples. `failed`:
    how often each job's runs failed, by reason."""

    def __init__(self, state: Path, temp: Path, file: Path, seed: int, minutes: float, say: Say) -> None:
        self.seconds, self.say = 60 * minutes, say
        self.events = draw(seed, self.seconds)
        self.stack = WeekStack(state, temp, Pace(self.seconds))
        self.tables, self._rng = PassingTables(seed), Random(seed)
        self.done, self.failed = Counter[str](), Counter[str]()
        self._file = file
        self._statements = self._waiting_ddl = 0
        self._places: list[tuple[str, int]] = []
        self._reached: list[str] = []  # where the lake stood
        self._began = self._told = time.monotonic()
        self._acts: dict[str, Callable[[], object]] = {
            "cut dump": self.stack.cut_dump,
            "rotate": lambda: self.stack.mysql.execute("FLUSH BINARY LOGS"),
            "ddl": self._ddl,
            "rewind": self._rewind,
            "restore": self._restore,
            "undo": self._undo,
            "snapshot": lambda: self.stack.launch("snapshot", tables=[self._some()]),
            "copy": lambda: self.stack.launch("copy", tables=[self._some()]),
            "maintain": lambda: self.stack.launch("maintain"),
        }

    def run(self) -> tuple[list[Sample], list[str]]:
        """Returns the samples, and what went wrong with the rows."""
        with ExitStack() as parts:
            self.stack.start(parts)
            self._tell("all parts run")
            sampler = Sampler([*self.stack.probes(), self._counts], self.stack.lives, self._file)
            self._began = self._told = time.monotonic()
            self.stack.bank.start()
            try:
                with beside(sampler.run):
                    self._live(sampler)
            finally:
                self.stack.bank.stop()
            self._tell(f"the load ends: {self.stack.bank.transactions:,} transactions, {self.done.total()} events")
            differences = self._differences()
            self.failed = self.stack.failed()
            return sampler.samples, differences

    # -- the events

    def _live(self, sampler: Sampler) -> None:
        for event in self.events:
            self._until(event.at, sampler)
            if event.killed in WATCHED and time.monotonic() - self._began > LATEST * self.seconds:
                continue  # the judged half would have a part of its life alone
            self._tell(event.what)
            began = time.monotonic()
            self._act(event)
            if (took := time.monotonic() - began) > _LONG:
                self._tell(f"{event.what}: took {took:.0f} s")
            self.done[event.what] += 1
            self._places = [*self._places[1 - _PLACES :], self.stack.mysql.position()]
            if reached := self.stack.reached():
                self._reached = [*self._reached[1 - _PLACES :], reached]
        self._until(self.seconds, sampler)

    def _act(self, event: Event) -> None:
        if not event.killed:
            self._acts[event.what]()
            return
        self.stack.kill(event.killed)
        if event.killed != "mysql":
            self._ddl()  # while nobody reads or applies it
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
            self._bound()
            if time.monotonic() - self._told > _TELL:
                self._told = time.monotonic()
                self._tell(standing(sampler.samples))
            time.sleep(min(left, _LOOK))

    def _bound(self) -> None:
        """The load rests while the lake is behind: a busy machine is no reason to have nothing but a backlog."""
        rows, self._waiting_ddl = self.stack.backlog() or (_MOST_ROWS, self._waiting_ddl)
        rests = self.stack.bank.rests
        if rows > _MOST_ROWS and not rests.is_set():
            rests.set()
        elif rows < _MOST_ROWS / 2:
            rests.clear()

    def _ddl(self) -> None:
        if self._waiting_ddl < _MOST_DDL:
            self.stack.mysql.execute(*self.tables.statements(), database=DATABASE)
            self._statements += 1
            self._waiting_ddl += 1

    def _rewind(self) -> None:
        if self._places:
            self.stack.rewind(self._rng.choice(self._places))

    def _restore(self) -> None:
        if self._reached:
            self.stack.launch("restore", to=self._rng.choice(self._reached), dry_run=False)

    def _undo(self) -> None:
        self.stack.undo(f"{DATABASE}.{PassingTables.UNDONE}")

    def _some(self) -> str:
        return f"{DATABASE}.{self._rng.choice(TABLES)}"

    def _counts(self) -> dict[str, float]:
        """What the soak itself has done, for which values may grow."""
        kills = sum(times for what, times in self.done.items() if what.startswith("kill "))
        jobs = sum(self.done[verb] for verb in ("snapshot", "copy", "maintain", "undo", "restore"))
        transactions = self.stack.bank.transactions
        return {KILLS: kills, STATEMENTS: self._statements, JOBS: jobs, TRANSACTIONS: transactions}

    def _tell(self, text: str) -> None:
        seconds = round(time.monotonic() - self._began)
        for line in wrapped(text, ""):
            self.say(f"{seconds // 60:3}:{seconds % 60:02}  {line}")

    # -- the verdict

    def _differences(self) -> list[str]:
        """The tables in which source and lake differ when all is drained."""
        self._tell("stopped tables are awaited")
        undone = self.done["undo"] and PassingTables.UNDONE in self.tables.there
        self.stack.settle(_SETTLE, [f"{DATABASE}.{PassingTables.UNDONE}"] if undone else [])
        self._tell("source and lake are compared")
        found = self.stack.compared((*TABLES, *self.tables.there), _COMPARE)
        return [str(row.to_dict()) for row in found if row.differences or row.error]


def soak(seed: int, minutes: float, say: Say) -> int:
    """Runs a week and reports it. The exit status: 1 for a slope without an end, a difference, or a fault."""
    home = sluice_home() / "soak"
    file = home / f"week-{seed}.jsonl"
    say(f"a week in {minutes:g} minutes, seed {seed}\nsamples: {file}\nthe stack's files: {home / 'week'}\n")
    with _folders(home / "week") as (state, temp):
        one = Week(state, temp, file, seed, minutes, say)
        try:
            samples, differences = one.run()
        except Exception as error:
            say("")
            say(traceback.format_exc())
            return _ended(seed, minutes, [f"FAULT: {error}"], say)
    found = report(samples, minutes, say)
    if one.failed:
        say("\nRuns that failed, most of them because of a kill:")
        for reason, times in one.failed.most_common():
            say("\n".join(wrapped(f"{times} x {reason}")))
    status = _ended(seed, minutes, [*found, *(f"DIFFERS: {line}" for line in differences)], say)
    if not status:
        shutil.rmtree(state)
    return status


def _ended(seed: int, minutes: float, faults: list[str], say: Say) -> int:
    """Says how it ended. Returns the exit status."""
    status = 1 if faults else 0
    say("\n" + ("\n".join(line for one in faults for line in wrapped(one, "")) if faults else "No slope goes on."))
    again = f"make soak WEEK=1 MINUTES={minutes:g} SEED={seed}"
    say(f"\n{'FAILED' if status else 'passed'}: {again}; exit status {status}")
    return status


def report_again(file: Path, minutes: float, say: Say) -> int:
    """Reports the samples of an earlier soak. The exit status."""
    found = report(read_samples(file), minutes, say)
    say("\n" + ("\n".join(line for one in found for line in wrapped(one, "")) or "No slope goes on."))
    return 1 if found else 0


def report(samples: list[Sample], minutes: float, say: Say) -> list[str]:
    """Says what was fast, and all slopes. Returns what fails."""
    pace, found = Pace(60 * minutes), findings(samples, 60 * minutes)
    for title, lines in (
        ("Time that is made fast:", pace.lines()),
        ("Time that is not:", [line for one in SLOW for line in wrapped(f"{one.what}: {one.why}")]),
        ("Reasons to grow:", reasons(found)),
        (f"Slopes of the last {minutes / 2:g} minutes:", table(found)),
    ):
        say("\n".join(["", title, *lines]))
    return failures(found)


def standing(samples: list[Sample]) -> str:
    """A line of the last values: how much was done, and how large the largest parts are."""
    last = dict[str, float]()
    for sample in samples[-12:]:
        last |= sample.values
    runs = last.get(GO, 0) + last.get(STAY, 0)
    text = f"- {last.get(TRANSACTIONS, 0):,.0f} transactions, {last.get(ACKED, 0):,.0f} batches, {runs:,.0f} runs;"
    sizes = (f"{part} {last[f'{part}: memory']:,.0f}" for part in ("service", "spark") if f"{part}: memory" in last)
    return f"{text} {', '.join(sizes)} MB"[: WIDTH - 8]


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

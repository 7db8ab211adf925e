"""What may grow in a soak of a week, by how much, and for which reason; and the findings of its samples.

An hour of the soak stands for a week: what a value is allowed in an hour is what nobody would notice in a week. A
shorter soak stands for a week too, and is allowed as much. Whatever is sampled has a measure here, the first whose
pattern fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from cdc_core.errors import ConfigError
from tests.support.growth import Finding, Measure, judge
from tests.support.samples import Sample, all_series

KILLS, STATEMENTS, JOBS = "soak: kills", "soak: statements", "soak: jobs"
TRANSACTIONS = "soak: transactions"
ACKED, STAY, GO = "service: claims acked", "dagster: runs that stay", "dagster: runs that go"
OVERDUE = "dagster: runs overdue"
RUNLESS, ORPHANS = "dagster: events without a run", "dagster: events of deleted runs"
_RUNS = {STAY: 1.0, GO: 1.0}


def _by_runs(each: float) -> dict[str, float]:
    return {name: each * rate for name, rate in _RUNS.items()}


MEASURES = (
    Measure("soak: *", "", 0, judged=False, why="what the soak did"),
    # processes
    Measure("service: memory", "MB", 30),
    Measure("spark: memory", "MB", 150, bound=1_900, why="a heap of 1 GB fills, 240 MB of code, classes and buffers"),
    Measure("code server: memory", "MB", 40),
    Measure("*: memory", "MB", 25),
    Measure("*: children's memory", "MB", 100, why="runs, and Spark's Python workers"),
    Measure("*: children", "", 3),
    Measure("spark: open files", "", 25),
    Measure("spark: threads", "", 25),
    Measure("service: open files", "", 12, why="the store's last 8 segments stay mapped"),
    Measure("*: open files", "", 6),
    Measure("*: threads", "", 6),
    # the service
    Measure(ACKED, "", 0, judged=False, why="work"),
    Measure("service: claims out", "", 1),
    Measure("service: clients", "", 0.5),
    Measure("service: definitions", "", 20, {STATEMENTS: 3}, why="looked at from 1,000 on"),
    Measure("store: files", "", 6, cycles=True),
    Measure("store: bytes", "MB", 64, cycles=True, why="volumes of 64 MB go as a whole"),
    Measure("zookeeper: nodes", "", 6, {STATEMENTS: 4}, why="definitions, kept for an hour at least"),
    Measure("zookeeper: connections", "", 2),
    # the source
    Measure("mysql: connections", "", 3),
    Measure("binlogs: files", "", 20, cycles=True),
    Measure("binlogs: bytes", "MB", 20, cycles=True),
    # the lake
    Measure("lake: rows", "", 0, judged=False, why="the source's, and those of change logs"),
    Measure("lake: commits", "", 0, judged=False, why="work"),
    Measure("log of *: commits", "", 0, judged=False, comes=True, why="work"),
    Measure("log of *: files", "", 20, {": commits": 2.5}, comes=True, why="commits stay a week"),
    Measure("lake: tables", "", 1),
    Measure("lake: live files", "", 40, cycles=True, why="joined by maintenance"),
    Measure("lake: live bytes", "MB", 3, {"lake: rows": 0.0003}, why="rows of 300 bytes at most"),
    Measure("lake: files", "", 30, {"lake: commits": 2.5}, why="VACUUM keeps a week"),
    Measure("lake: bytes", "MB", 0, judged=False, why="VACUUM keeps a week"),
    # Spark leaves an empty file for each table that a statement makes anew
    Measure("lake: files of no commit", "", 20, {KILLS: 10, STATEMENTS: 3, JOBS: 3}, why="VACUUM keeps a week"),
    Measure("ledger: rows", "", 20, {ACKED: 1.0}, why="a row a batch"),
    Measure("ledger: live files", "", 20, cycles=True, turn=(ACKED, 200), why="joined each 200 commits"),
    # Dagster
    Measure(GO, "", 0, judged=False, why="a day's, as many as there were"),
    Measure(OVERDUE, "", 10, why="the last ones of assets and destinations are kept"),
    Measure(STAY, "", 0, judged=False, why="failed runs and those of jobs: kept 30 days"),
    Measure(RUNLESS, "", 400, why="one in 10 s at most, kept for ever"),
    Measure(ORPHANS, "", 5),
    Measure("dagster: job_ticks", "", 0, judged=False, why="kept a day"),
    Measure("dagster: runs", "", 20, _by_runs(1)),
    Measure("dagster: run_tags", "", 100, _by_runs(15)),
    Measure("dagster: event_logs", "", 300, {RUNLESS: 1.0, **_by_runs(80)}),
    Measure("dagster: asset_event_tags", "", 300, {RUNLESS: 4.0, **_by_runs(80)}),
    Measure("dagster: asset_check_executions", "", 50, _by_runs(10)),
    Measure("dagster: bytes", "MB", 3, {"dagster: job_ticks": 0.003, "dagster: event_logs": 0.006, STAY: 0.03}),
    Measure("dagster: *", "", 6),
    Measure("dagster files: files", "", 20, _by_runs(5)),
    Measure("dagster files: bytes", "MB", 5, _by_runs(0.1)),
    # what is left behind
    Measure("temp: files", "", 10, {KILLS: 5}),
    Measure("temp: bytes", "MB", 5, {KILLS: 1}),
    Measure("scratch: files", "", 200, cycles=True, why="Spark's, until its garbage is collected"),
    Measure("scratch: bytes", "MB", 50, cycles=True, why="Spark's, until its garbage is collected"),
    Measure("staging: *", "", 5, {KILLS: 3}, why="removed a day later"),
    Measure("logs: *", "", 0, judged=False, why="nothing turns them over"),
)


def measure_of(name: str) -> Measure:
    """Returns the measure of a value. Raises ConfigError for one that has none."""
    found = next((measure for measure in MEASURES if fnmatchcase(name, measure.pattern)), None)
    if found is None:
        raise ConfigError("nobody said how it is judged", place=name, hint="Give it a measure in MEASURES.")
    return found


def findings(samples: Sequence[Sample], seconds: float) -> list[Finding]:
    """Returns what is found of each value in a soak of so many seconds, in the order of the measures."""
    series = all_series(samples)
    order = {measure.pattern: number for number, measure in enumerate(MEASURES)}
    names = sorted(series, key=lambda name: (order[measure_of(name).pattern], name))
    shorter = max(1.0, 3600 / seconds)
    return [judge(_allowed(measure_of(name), shorter), series[name], series, seconds / 7200) for name in names]


def _allowed(measure: Measure, times: float) -> Measure:
    return replace(measure, allowed=measure.allowed * times)

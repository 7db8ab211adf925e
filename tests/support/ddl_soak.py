"""Trials one after the other, and the shortest script that still goes wrong."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cdc_core import config
from orchestration.stack.mysql.server import MySqlServer
from tests.support.ddl_runs import Runs
from tests.support.ddl_trial import Outcome, Trial
from tests.support.filter_steps import FilterSteps
from tests.support.shop import opened_shop


@contextmanager
def opened_trial(mysql: MySqlServer, spark_remote: str, directory: Path) -> Iterator[Trial]:
    """A service and a lake of its own, and two databases that it captures."""
    with mysql.database("side") as second:
        keys = {"sluice_zero_dates": "null", "canal_instance_filter_regex": f"merge_[^.]*\\\\..*,{second}\\\\..*"}
        journal, offset = mysql.position()
        start = {"journalName": journal, "position": offset}
        with opened_shop(mysql, spark_remote, directory, **keys) as shop:
            instance, _ = config.load_instance(directory / "conf", "shop")
            databases = shop.database, second
            yield Trial(Runs(shop, instance), databases, start, FilterSteps(shop, directory / "conf", databases))


def fresh(mysql: MySqlServer, spark_remote: str, run: Callable[[Trial], Outcome]) -> tuple[Outcome, tuple[str, str]]:
    """The outcome of `run` on a trial of its own, and the names of its databases."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-ddl-") as directory,
        opened_trial(mysql, spark_remote, Path(directory)) as trial,
    ):
        return run(trial), trial.databases


def shrunk(steps: list[str], fails: Callable[[list[str]], bool], tries: int) -> list[str]:
    """Delta debugging (Zeller, "Simplifying and Isolating Failure-Inducing Input"): leaves out ever smaller parts as
    long as the rest still fails, in at most `tries` tries."""
    size = max(1, len(steps) // 2)
    while size:
        at = 0
        while at < len(steps) and tries:
            without = steps[:at] + steps[at + size :]
            tries -= 1
            if without and fails(without):
                steps = without
            else:
                at += size
        size = 0 if size == 1 or not tries else size // 2
    return steps


def renamed(steps: list[str], old: tuple[str, str], new: tuple[str, str]) -> list[str]:
    """The steps with the names of another trial's databases."""
    return [step.replace(old[0], new[0]).replace(old[1], new[1]) for step in steps]

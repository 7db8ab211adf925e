"""The driver of a week's soak: what it does to its stack, when it gives up, and what it says. The stack is a double."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_core import config
from orchestration.settings import Settings
from orchestration.stack.home import PROJECT
from tests.soak import week
from tests.soak.stack import _COUNTERS, _GAUGES, _LAUNCH, WeekStack, reason_of
from tests.support import week_events
from tests.support.samples import Probe
from tests.support.week_events import OTHERS, WATCHED
from tests.support.week_measures import measure_of
from tests.support.week_pace import Pace

MINUTES = 0.04


class StackDouble:
    """Notes what is done to it. Its parts run unless they are in `gone`."""

    gone: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    behind: tuple[int, int] = (0, 0)

    def __init__(self, *_: object) -> None:
        self.done: list[str] = []
        self.compared_tables: list[str] = []
        self.bank = SimpleNamespace(start=lambda: None, stop=lambda: None, transactions=7, error=None, rests=Event())
        self.mysql = SimpleNamespace(execute=self._execute, position=lambda: ("mysql-bin.000001", len(self.done)))

    def _execute(self, *statements: str, **_: str) -> None:
        self.done += statements

    def start(self, parts: ExitStack) -> None:
        parts.callback(self.done.append, "end")

    def kill(self, part: str) -> None:
        self.done.append(f"kill {part}")

    def restart(self, part: str) -> None:
        self.done.append(f"start {part}")

    def ended(self) -> list[str]:
        return list(self.gone)

    def cut_dump(self) -> None:
        self.done.append("cut dump")

    def rewind(self, *_: object) -> None:
        self.done.append("rewind")

    def undo(self, table: str) -> None:
        self.done.append(f"undo {table}")

    def failed(self) -> Counter[str]:
        return Counter(self.failures)

    def launch(self, verb: str, **_: object) -> str:
        self.done.append(verb)
        return "a run"

    def reached(self) -> str:
        return "mysql-bin.000001:4"

    def backlog(self) -> tuple[int, int]:
        return self.behind

    def settle(self, *_: object) -> None:
        self.done.append("settle")

    def lives(self) -> Mapping[str, int]:
        return {"service": 1}

    def probes(self) -> list[Probe]:
        return [lambda: {"service: memory": 1.0}]

    def compared(self, tables: tuple[str, ...], *_: object) -> list[Any]:
        self.compared_tables += tables
        return [
            SimpleNamespace(differences=int(one in self.wrong), error="", to_dict=lambda one=one: {"table": one})
            for one in tables
        ]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What the soak says. Its stack is a double, its files are in a folder of the test's, and no part is away long."""
    monkeypatch.setattr(week, "WeekStack", StackDouble)
    monkeypatch.setattr(week_events, "LEAST", 0.0)
    monkeypatch.setattr(time, "sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.01)))
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    return []


def test_all_events_happen_and_all_tables_are_compared(tmp_path: Path, said: list[str]) -> None:
    """A killed part is started again. The samples have what the soak did."""
    one = week.Week(tmp_path, tmp_path, tmp_path / "samples", 1, MINUTES, said.append)
    samples, differences = one.run()
    stack: Any = one.stack
    assert differences == []
    assert one.done.total() == len(one.events)
    kills = [what for what in stack.done if what.startswith("kill ")]
    assert [what.replace("kill", "start") for what in kills] == [what for what in stack.done if what.startswith("sta")]
    assert {*stack.done} >= {"rewind", "restore", "undo shop.passing_2", "snapshot", "copy", "maintain", "cut dump"}
    assert {*stack.done} >= {"FLUSH BINARY LOGS", "settle", "end"}
    assert any(what.startswith("CREATE TABLE") for what in stack.done)
    assert stack.compared_tables[:3] == ["account", "entry", "log"]
    assert stack.compared_tables[3:] == one.tables.there
    assert samples[0].values["soak: transactions"] == 7


def test_what_is_watched_dies_in_the_first_half_alone(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what came before took so long that its death would be late."""
    monkeypatch.setattr(week, "LATEST", 0.0)
    one = week.Week(tmp_path, tmp_path, tmp_path / "samples", 1, MINUTES, said.append)
    one.run()
    assert {what for what in one.done if what.startswith("kill ")} == {f"kill {part}" for part in OTHERS}


def test_the_load_rests_while_the_lake_is_behind(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no statement comes then; what happens otherwise goes on."""
    monkeypatch.setattr(StackDouble, "behind", (5_000, 8))
    one = week.Week(tmp_path, tmp_path, tmp_path / "samples", 1, MINUTES, said.append)
    one.run()
    stack: Any = one.stack
    assert stack.bank.rests.is_set()
    assert not any(what.startswith("ALTER TABLE") for what in stack.done)
    assert one.done.total() == len(one.events)


def test_a_part_that_ends_by_itself_ends_the_soak(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name; the stack is ended all the same."""
    monkeypatch.setattr(StackDouble, "gone", ("spark",))
    one = week.Week(tmp_path, tmp_path, tmp_path / "samples", 1, MINUTES, said.append)
    with pytest.raises(week.Fault, match="ended by itself: spark"):
        one.run()
    stack: Any = one.stack
    assert stack.done == ["end"]


def test_a_probe_that_fails_ends_the_soak(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own error, and at once: not after an hour."""

    def broken() -> Mapping[str, float]:
        raise KeyError("a mistake")

    monkeypatch.setattr(StackDouble, "probes", lambda _: [broken])
    one = week.Week(tmp_path, tmp_path, tmp_path / "samples", 1, 60, said.append)
    with pytest.raises(KeyError, match="a mistake"):
        one.run()


def test_a_difference_fails_and_leaves_the_files(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said after the report; temporary files are the soak's own meanwhile, and go."""
    monkeypatch.setattr(StackDouble, "wrong", ("entry",))
    before = os.environ.get("TMPDIR"), tempfile.gettempdir()
    assert week.soak(1, MINUTES, said.append) == 1
    assert (os.environ.get("TMPDIR"), tempfile.gettempdir()) == before
    assert any("\nDIFFERS: {'table': 'entry'}" in line for line in said)
    assert said[-1] == "\nFAILED: make soak WEEK=1 MINUTES=0.04 SEED=1; exit status 1"
    assert any(line.startswith("\nTime that is made fast:") for line in said)
    assert (tmp_path / "soak" / "week").is_dir()


def test_a_fault_is_said_with_what_repeats_it(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace, then the fault, and how to see it again."""
    monkeypatch.setattr(StackDouble, "gone", ("spark",))
    assert week.soak(3, MINUTES, said.append) == 1
    assert said[-2:] == [
        "\nFAULT: ended by itself: spark",
        "\nFAILED: make soak WEEK=1 MINUTES=0.04 SEED=3; exit status 1",
    ]


def test_a_failed_run_is_counted_by_its_first_cause() -> None:
    """Not by the last line of a stack trace."""
    trace = 'Stack Trace:\n  File "a.py", line 1\n    raise error\n'
    caused = "The above exception was caused by the following exception:\ncdc_core.errors.LakeError: no ledger\n\n"
    error = f"Execution of step failed.\ndagster.ExecutionError: it failed\n\n{trace}\n{caused}{trace}"
    assert reason_of([error, "later"]) == "cdc_core.errors.LakeError: no ledger"
    assert reason_of(["The run's process is gone.\n"]) == "The run's process is gone."
    assert reason_of(["\n"]) == "no reason"


def test_progress_is_within_80_columns(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the time, what happens, and now and then how much was done; runs that failed are counted by reason."""
    monkeypatch.setattr(week, "_TELL", 0.2)
    monkeypatch.setattr(StackDouble, "failures", ("drain_shop: " + 30 * "the reason ",) * 2)
    week.soak(1, MINUTES, said.append)
    text = "\n".join(said).splitlines()
    assert max(map(len, text[3:])) <= 80  # the first ones have paths
    assert any(line.startswith("  0:01  ") for line in text)
    assert any("- 7 transactions" in line for line in text)
    assert any(line.startswith("  2 x drain_shop: the reason") for line in text)


def test_samples_are_reported_again(tmp_path: Path, said: list[str]) -> None:
    """A leak in a file of an earlier soak fails by name, within 80 columns."""
    file = tmp_path / "samples"
    lines = [{"at": at, "values": {"service: memory": 300 + at / 10}, "lives": {}} for at in range(0, 3600, 5)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert week.report_again(file, 60, said.append) == 1
    text = "\n".join(said).splitlines()
    assert "service: memory GROWS by +360.0 MB an hour; 30.0 MB is allowed (509.8 to 629.8" in text
    assert max(map(len, text)) <= 80


@pytest.mark.integration
def test_the_configuration_of_the_stack_is_one_that_its_parts_take(tmp_path: Path) -> None:
    """No server is started: the files are read as the service and Dagster read them, and each probe is asked."""
    state = tmp_path / "state"
    state.mkdir()
    stack = WeekStack(state, tmp_path, Pace(3600))
    stack._write_conf(("mysql-bin.000001", 4))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SLUICE_DEMO_PASSWORD", "secret")
        instance, found = config.load_instance(state / "conf", "shop")
    assert not found.unknown
    assert (instance.buffer_size, instance.store_bytes, instance.lease_seconds) == (16_384, 512 << 20, 15)
    settings = Settings(**stack._attributes())  # type: ignore[arg-type]
    assert settings.modes.of("shop.entry").value == "land_first"
    assert (settings.snapshot, settings.trigger.interval_seconds) == ("when_needed", 1)
    assert stack.ended() == list(stack.processes)
    assert {*stack.watched} == {*WATCHED}
    assert {*stack.processes} == {*WATCHED, *OTHERS} - {"run"}
    names = {name for probe in stack.probes() for name in probe()}
    stack.mysql.stop()  # removes the folder of its socket
    assert {measure_of(name).pattern for name in names} >= {"lake: tables", "store: files", "dagster files: files"}


def test_the_metrics_that_are_sampled_exist() -> None:
    """As the reference names them."""
    reference = (PROJECT / "docs" / "reference" / "metrics.md").read_text()
    assert [name for name in {**_GAUGES, **_COUNTERS} if f"`{name}`" not in reference] == []


def test_the_launch_of_a_job_is_one_that_dagster_knows() -> None:
    """The query is valid in the schema of Dagster's page."""
    from dagster_graphql.schema import create_schema
    from graphql import parse, validate

    assert validate(create_schema().graphql_schema, parse(_LAUNCH)) == []

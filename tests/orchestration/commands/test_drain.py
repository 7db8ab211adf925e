"""`sluice drain`: what it claims and says, and its exit codes, over doubles of the service and the lake."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_core.contract.claim import Claim
from cdc_core.errors import ConfigError, LakeError, TableStopped
from orchestration import draining
from orchestration.cli import app
from orchestration.settings import Settings
from orchestration.stack.defs import write_component
from spark_jobs.apply.result import BatchResult, Refusal
from tests.support.canal_double import MemoryCanal, MemoryLake, position


class Place(MemoryLake):
    """A lake of whose tables some were declared to land."""

    logs_there: tuple[str, ...] = ()
    conf = ""

    @property
    def lake(self) -> Any:
        return self

    def logs(self, _destination: str) -> tuple[str, ...]:
        return self.logs_there


Run = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def canal() -> MemoryCanal:
    return MemoryCanal(batches=3)


@pytest.fixture
def lake() -> MemoryLake:
    return MemoryLake()


@pytest.fixture
def drained(canal: MemoryCanal, lake: MemoryLake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs the command on a defs.yaml of the shop. Returns its exit code and the objects that it printed."""
    monkeypatch.setattr(draining, "canal_of", lambda _settings, **_: canal)
    monkeypatch.setattr(draining, "lake_of", lambda _settings, **_: lake)
    file = tmp_path / "shop" / "defs.yaml"
    write_component(file, {"destination": "shop", "lake": "/lake", "linger_seconds": 0, "parallelism": 1})

    def run(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
        done = CliRunner().invoke(app, ["drain", "shop", "--defs", str(file), *arguments, "--json"])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_all_that_waits_is_drained(drained: Run, canal: MemoryCanal, lake: MemoryLake) -> None:
    """With an object for each batch, and one of the run."""
    code, lines = drained()

    assert (code, canal.acked, canal.held) == (0, 3, [])
    assert [(one["batch_id"], one["rows"]) for one in lines[:3]] == [(1, 20), (2, 20), (3, 20)]
    assert lines[0]["tables"] == ["shop.orders", "shop.users"]
    assert (lines[0]["start"], lines[0]["end"]) == (str(position(-1)), str(position(0)))
    assert {name: lines[3][name] for name in ("batches", "rows", "checks")} == {"batches": 3, "rows": 60, "checks": []}
    assert lake.noted == [1, 2, 3]


def test_once_is_one_batch_or_nothing(drained: Run, canal: MemoryCanal) -> None:
    """The rest waits for the next time."""
    canal.put = 1
    assert [len(drained("--once")[1]), canal.acked] == [2, 1]
    assert [len(drained("--once")[1]), canal.acked] == [1, 1]
    canal.put = 3
    assert [len(drained("--once")[1]), canal.acked] == [2, 2]


def test_a_table_that_stops_ends_with_one(drained: Run, canal: MemoryCanal, lake: MemoryLake) -> None:
    """The other table has its rows. A later run, which brings nothing, says so too, until the stop is lifted."""

    def stop(_: Claim, batch: BatchResult) -> BatchResult:
        error = TableStopped("a statement is not followed", hint="Copy it.")
        kept = tuple(one for one in batch.applied if one.table != "shop.users")
        return replace(batch, applied=kept, refused=(Refusal("shop.users", error),) if not canal.stopped else ())

    lake._spoil = stop
    code, lines = drained()
    assert (code, canal.acked) == (1, 3)
    (red,) = lines[-1]["checks"]
    assert (red["table"], red["check"], red["warns"]) == ("shop.users", "takes_changes", False)
    assert "a statement is not followed" in red["text"]

    assert drained()[0] == 1
    canal.stopped.clear()
    assert drained()[0] == 0


@pytest.mark.parametrize("error", [LakeError("the lake is away", hint="Wait."), KeyboardInterrupt(), SystemExit(143)])
def test_what_is_claimed_is_given_back(drained: Run, canal: MemoryCanal, lake: MemoryLake, error: Any) -> None:
    """When it fails, and when it is interrupted; the batches before stay acked."""

    def fail(claim: Claim, batch: BatchResult) -> BatchResult:
        if claim.batch_id == 2:
            raise error
        return batch

    lake._spoil = fail
    if isinstance(error, LakeError):
        with pytest.raises(LakeError):
            drained()
    else:
        assert drained()[0] in (1, 130, 143)
    assert (canal.acked, canal.held, canal.log[-1]) == (1, [], "rollback")


def test_a_red_run_can_be_raised(canal: MemoryCanal) -> None:
    """`check` of the result names the tables; warnings are none of its business."""
    warning = draining.RedCheck("shop.orders", "rows_add_up", "in doubt", warns=True)
    failed = draining.RedCheck("shop.users", "takes_changes", "stopped", warns=False)
    draining.DrainedRun("r", 1, 2, (warning,)).check()
    with pytest.raises(LakeError, match=r"shop\.users: takes_changes: stopped") as caught:
        draining.DrainedRun("r", 1, 2, (warning, failed)).check()
    assert "in doubt" not in str(caught.value)


def test_another_lake_than_the_declared_one_is_refused(drained: Run, canal: MemoryCanal) -> None:
    """Before anything is claimed."""
    with pytest.raises(ConfigError, match="/lake is the lake of shop there, not /other"):
        drained("--lake", "/other")
    assert canal.get == 0
    assert drained("--lake", "/lake/")[0] == 0


def test_a_lake_of_a_defs_is_not_drained_without_it(canal: MemoryCanal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tables have change logs, and where the service keeps rules."""
    settings, lake = Settings(destination="shop", lake="/lake", snapshot="initial"), Place()
    run = draining.OwnRun("r", draining.logging.getLogger(), lambda _: None)
    limits = draining.limits_of(settings, once=True, seconds=None)
    lake.logs_there = ("shop.orders",)
    with pytest.raises(ConfigError, match="change logs or unions"):
        draining.drain_with(run, settings, canal, lake, limits, declared=False)  # type: ignore[arg-type]
    status = canal.client_status()
    monkeypatch.setattr(canal, "subscribe", lambda: replace(status, rules="abc"))
    with pytest.raises(ConfigError, match="keeps rules"):
        draining.drain_with(run, settings, canal, lake, limits, declared=False)  # type: ignore[arg-type]
    assert canal.get == 0


def test_a_run_ends_when_nothing_waits() -> None:
    """Whatever freshness is declared: it is not one of those that stay."""
    settings = Settings(destination="shop", lake="/lake", freshness="asap", max_batches=7)
    limits = draining.limits_of(settings, once=False, seconds=5)
    assert (limits.freshness, limits.linger_seconds, limits.max_batches, limits.max_seconds) == ("", 1.0, 7, 5)
    assert draining.limits_of(settings, once=True, seconds=None).max_batches == 1


def test_the_example_for_airflow_calls_what_there_is() -> None:
    """Its task calls the function with arguments that it takes. `tests.live.test_drain_command` runs it in Airflow."""
    tree = ast.parse((Path(__file__).parents[3] / "deploy" / "airflow" / "sluice_dag.py").read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    calls = [node for node in ast.walk(functions["drain"]) if isinstance(node, ast.Call)]
    (call,) = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "drain"]
    names = {keyword.arg: None for keyword in call.keywords if keyword.arg}
    assert inspect.signature(draining.drain).bind(*call.args, **names).arguments["run_id"] is None


@pytest.mark.parametrize("arguments", [[], ["shop", "--seconds", "0"], ["shop", "--twice"]])
def test_bad_usage_ends_with_two(arguments: list[str]) -> None:
    """As of every command."""
    assert CliRunner().invoke(app, ["drain", *arguments]).exit_code == 2

"""A run that merges logs: what Dagster shows of each table; real Dagster over doubles of the logs and the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_core.errors import LakeError, ServiceUnavailable, TableStopped
from orchestration.assets.landed import LandedTables
from orchestration.assets.lineage import declared
from orchestration.assets.merge_asset import merge_asset
from orchestration.names import MERGED
from orchestration.settings import Settings
from spark_jobs.expectations.expectation import Severity
from spark_jobs.expectations.results import ExpectationResult
from spark_jobs.following.history.columns import work_of
from spark_jobs.following.merged import Merged
from spark_jobs.following.pending import Part, Pending
from spark_jobs.lake.blocking import TableBlocked
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.landing.modes import Mode, Modes
from tests.support.canal_double import ORDERS, USERS, MemoryCanal
from tests.support.registered import made

REFUSED = TableStopped("a constraint refuses a row", place="shop.orders", hint="Drop the constraint.")


class LoggedLake(Lake):
    """A lake with the logs of both tables."""

    def logs(self, destination: str) -> list[str]:
        return [f"{destination}.orders", f"{destination}.users"]


@dataclass
class MemoryLogs:
    """In the place of the lake's resource: `left` counts the parts of each log; `refuses` names a table that takes
    none."""

    lake: Lake
    left: dict[str, int]
    refuses: str = ""
    error: TableStopped = REFUSED
    contradiction: str = ""
    expected: tuple[ExpectationResult, ...] = ()
    added: tuple[str, ...] = ()
    destination: str = "shop"
    client_id: int = 1001
    runs: list[str] = field(default_factory=list)

    @property
    def follows(self) -> MemoryLogs:
        return self

    @contextmanager
    def merging(self, *_: Any) -> Iterator[MemoryLogs]:
        yield self

    def cores(self) -> int:
        return 2

    def of(self, tables: list[str]) -> list[str]:
        return [*tables, *(work for work in self.left if work not in tables)]

    def pending(self, table: str) -> Pending | None:
        rows = 10 * self.left.get(table, 0)
        part = Part(0, 100, 200, rows, 5.0)
        return Pending(table, part, rows, 5.0, 200 + rows, None, None) if rows else None  # type: ignore[arg-type]

    def takes(self, _: str, __: Pending) -> bool:
        return False

    def together(self, futures: Mapping[str, Future[Merged]], _: int) -> None:
        raise NotImplementedError

    def rest(self, _: float) -> None: ...

    def next(self, table: str) -> Merged:
        self.runs.append(table)
        if table == self.refuses:
            raise self.error
        self.left[table] -= 1
        return Merged(
            table, 1, 10, 4, 3, 1, 0, 200, 7, 5.0, 8.5, 0.5, self.added, self.contradiction, expected=self.expected
        )


def merge(
    logs: MemoryLogs,
    canal: MemoryCanal | None = None,
    mode: Mode = Mode.LAND_FIRST,
    freshness: str = "",
    instance: dg.DagsterInstance | None = None,
    schema_change: str = "ignore",
    **config: Any,
) -> dg.ExecuteInProcessResult:
    listed = ["shop.orders", "shop.users"]
    settings = Settings(
        destination="shop", lake="/lake", tables=listed, linger_seconds=0, freshness=freshness,
        schema_change=schema_change,
    )  # fmt: skip
    asset = merge_asset(settings, LandedTables(Modes(mode), declared(settings, [ORDERS, USERS])))
    return dg.materialize(
        [asset],
        resources={"canal_shop": canal or MemoryCanal(), "lake_shop": logs},
        run_config={"ops": {"merge_shop": {"config": config}}} if config else None,
        instance=instance or dg.DagsterInstance.ephemeral(),
        raise_on_error=False,
    )


def test_columns_that_came_with_rows_of_a_log_are_a_warning(tmp_path: Path) -> None:
    """Until a later run merges rows without new ones."""
    logs, instance = (
        MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 1, "shop.users": 1}),
        dg.DagsterInstance.ephemeral(),
    )

    def changes(result: dg.ExecuteInProcessResult) -> list[tuple[str, bool]]:
        found = [one for one in result.get_asset_check_evaluations() if one.check_name == "schema_change"]
        return sorted((str(one.description), one.passed) for one in found)

    logs.added = ("x",)
    came, same = (
        "added x, by no statement: rows came that have it",
        "The columns of the table in the lake did not change.",
    )
    assert {*changes(merge(logs, instance=instance, schema_change="warn"))} == {(came, False)}
    logs.left, logs.added = {"shop.orders": 1}, ()
    assert {*changes(merge(logs, instance=instance, schema_change="warn"))} == {(same, True)}
    assert changes(merge(MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 1}, added=("x",)))) == []


def test_a_union_has_what_its_shards_merged(tmp_path: Path) -> None:
    """It is materialized with them, once for each merge that changed it."""
    into = Unions("shop", (Union("all.orders", r"(shop)\.orders", ("of",)),))
    lake = LoggedLake(tmp_path, unions=into)
    made(lake, "orders")

    result = merge(MemoryLogs(lake, {"shop.orders": 2, "shop.users": 1}))

    assert result.success
    union = lake.open(lake.path("all", "orders"))
    assert union.to_pyarrow_table().to_pylist() == [{"id": 0, "of": "shop"}]
    keys = [event.asset_key.path for event in result.get_asset_materialization_events() if event.asset_key]
    assert keys.count(["delta", "shop", "all", "orders"]) == 1


def checks(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {one.asset_key.path[-1]: one for one in result.get_asset_check_evaluations()}


def test_each_part_is_a_materialization_with_its_lag(tmp_path: Path) -> None:
    """Rows, what is left, and the seconds since the rows landed; the checks pass."""
    result = merge(MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 2, "shop.users": 1}))

    assert result.success
    shown = [
        event.step_materialization_data.materialization for event in result.all_events if event.is_step_materialization
    ]
    assert sorted(one.asset_key.path[-1] for one in shown) == ["orders", "orders", "users"]
    facts = {name: value.value for name, value in shown[-1].metadata.items()}
    assert (facts["rows"], facts["rows_inserted"], facts["lag_seconds"], facts["delta_version"]) == (10, 4, 3.5, 7)
    assert facts["engine"] == "sql"
    assert {name: one.passed for name, one in checks(result).items()} == {"orders": True, "users": True}


def test_a_log_that_cannot_be_read_after_a_merge_is_no_failure_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is not reported then; the next merge says what is wrong."""
    logs = MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 1})
    pending = logs.pending

    def away(table: str) -> Pending | None:
        if logs.runs == [table]:
            logs.runs.append("asked")
            raise LakeError("the lake is away", place=table, hint="Make the lake readable.")
        return pending(table)

    monkeypatch.setattr(logs, "pending", away)
    result = merge(logs)

    assert result.success
    assert logs.runs == ["shop.orders", "asked"]
    (shown,) = result.get_asset_materialization_events()
    facts = shown.step_materialization_data.materialization.metadata
    assert facts["rows"].value == 10
    assert "rows_left" not in facts


def test_a_history_is_an_asset_of_its_own_and_waits_alone(tmp_path: Path) -> None:
    """With a check of its own; the table is merged."""
    work = work_of("shop.users")
    logs = MemoryLogs(LoggedLake(tmp_path), {"shop.users": 1, work_of("shop.orders"): 1, work: 1}, refuses=work)
    result = merge(logs, mode=Mode.HISTORY)

    assert result.success
    shown = {one.asset_key.path[-1] for one in result.get_asset_materialization_events() if one.asset_key}
    assert shown == {"users", "orders__history"}
    passed = {name: one.passed for name, one in checks(result).items()}
    assert passed == {"orders": True, "orders__history": True, "users": True, "users__history": False}


def test_a_table_that_waits_is_red_with_the_reason_and_the_others_go_on(tmp_path: Path) -> None:
    """Until a run merges it. A run started by hand tries it at once."""
    logs = MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 1, "shop.users": 1}, refuses="shop.orders")
    result = merge(logs)

    assert result.success
    told = [one.passed for one in result.get_asset_check_evaluations() if one.asset_key.path[-1] == "orders"]
    assert told == [False, False]  # at once, and at the end
    found = checks(result)["orders"]
    assert (found.check_name, found.passed) == (MERGED, False)
    assert "a constraint refuses a row" in (found.description or "")
    assert found.metadata["tries"].value == 1
    assert checks(result)["users"].passed
    assert not checks(merge(logs))["orders"].passed
    assert logs.runs.count("shop.orders") == 1
    logs.refuses = ""
    assert checks(merge(logs, parked=True))["orders"].passed


def test_a_table_that_contradicts_its_log_stops(tmp_path: Path) -> None:
    """The service notes it, as of a batch."""
    canal = MemoryCanal()
    merge(MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 1}, contradiction="a key is there twice"), canal)

    assert [(one.table, one.reason) for one in canal.stopped] == [("shop.orders", "a key is there twice")]


def test_a_blocked_table_is_reported_until_it_goes_on(tmp_path: Path) -> None:
    """A service that is away for it fails no merge, and is told by the next run."""
    canal, logs = MemoryCanal(), MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 1, "shop.users": 1}, "shop.orders")
    logs.error = TableBlocked("2 rows fail some", place="x", hint="Accept it.")
    canal.report_error = ServiceUnavailable("away", place="x", hint="Wait.")
    assert merge(logs, canal).success
    canal.report_error = None
    assert merge(logs, canal).success
    (one,) = canal.blocked
    assert (one.table, one.reason, one.hint) == ("shop.orders", "2 rows fail some at x", "Accept it.")
    logs.error = REFUSED
    merge(logs, canal, parked=True)
    assert canal.blocked == ()
    logs.error = TableBlocked("2 rows fail some", place="x", hint="Accept it.")
    merge(logs, canal, parked=True)
    logs.refuses = ""
    merge(logs, canal, parked=True)
    assert canal.log == [*(["blocked ['shop.orders']", "blocked []"] * 2)]


def test_rows_that_wait_are_reported_when_a_part_is_merged(tmp_path: Path) -> None:
    """The first time in a run of all tables. A service that is away for it fails no merge."""
    qty, canal = ExpectationResult("range_qty", Severity.QUARANTINE, 10), MemoryCanal()
    canal.quarantined = {"shop.orders": 3}
    assert merge(MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 1}, expected=(qty,)), canal).success
    assert (canal.quarantined, canal.reports) == ({}, [({}, True)])
    canal.report_error = ServiceUnavailable("away", place="x", hint="Wait.")
    assert merge(MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 1}, expected=(qty,)), canal).success


def test_a_service_that_is_away_loses_no_contradiction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is stopped when the other merges are done, and these are reported."""
    canal, away = MemoryCanal(), iter([ServiceUnavailable("no answer", place="http", hint="Start it.")])
    stop = canal.stop_table

    def refused(table: str, **named: Any) -> None:
        for error in away:
            raise error
        stop(table, **named)

    monkeypatch.setattr(canal, "stop_table", refused)
    logs = MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 1, "shop.users": 1}, contradiction="a key is there twice")
    result = merge(logs, canal)

    assert result.success
    assert sorted(one.table for one in canal.stopped) == ["shop.orders", "shop.users"]
    assert len(result.get_asset_materialization_events()) == 2


def test_a_run_stays_where_rows_are_wanted_as_soon_as_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `freshness: asap` it merges what comes later too, and ends when another run waits for its end; not before
    its first turn, though."""
    logs = MemoryLogs(LoggedLake(tmp_path), {"shop.orders": 1, "shop.users": 0})
    asked: list[int] = []

    def waits(*_: object) -> bool:
        asked.append(len(logs.runs))
        if len(asked) == 3:
            logs.left["shop.users"] = 1
        return len(asked) > 5

    monkeypatch.setattr("orchestration.assets.merge_run.queued", waits)
    result = merge(logs, freshness="asap")

    assert result.success
    assert logs.runs == ["shop.orders", "shop.users"]
    assert asked[0] == 1
    assert len(asked) == 6

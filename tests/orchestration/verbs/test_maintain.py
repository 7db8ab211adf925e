"""The job that maintains tables, without Spark: what it reports."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_core.errors import LakeError
from orchestration.commands.verb import access_of
from orchestration.commands.verb import run as run_verb
from orchestration.settings import ApplyRules, Settings
from orchestration.verbs import maintain
from orchestration.verbs.access import Access
from orchestration.verbs.orders import Maintain
from spark_jobs.lake.catalog_names import CatalogRules
from spark_jobs.lake.layout import Layouts, Vectors
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode
from spark_jobs.maintain.logs import LogUpkeep, Retention
from spark_jobs.maintain.result import Maintained
from spark_jobs.maintain.shape import Shape
from spark_jobs.maintain.upkeep import Upkeep
from spark_jobs.session import Sessions
from tests.support.jobs import NOWHERE, executed, write_conf
from tests.support.registered import Said


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def table(_: Upkeep, database: str, table: str) -> Maintained:
        if table == "odd":
            raise LakeError("the disk is full", place="/lake", hint="Make room.")
        if table == "paused":
            return Maintained(f"{database}.{table}", left="it is stopped: paused")
        done = Shape(12, 40, 4000, 40), Shape(13, 1, 3000, 1)
        return Maintained(f"{database}.{table}", *done, compacted=True, deleted=7, retention_hours=168, seconds=1.5)

    monkeypatch.setattr(maintain.Upkeep, "table", table)
    return tmp_path


def run(conf: Path, *tables: str, reason: str = "nightly") -> Any:
    return executed(Maintain, "http://127.0.0.1:1", conf, tables=list(tables), reason=reason)


def test_each_table_has_its_figures(conf: Path) -> None:
    """In the history of its asset; a table that is left alone says why, and fails nothing."""
    done = run(conf, "shop.orders", "shop.paused")
    assert done.success
    history = {asset.rpartition("/")[2]: told for asset, told in done.history if told["outcome"] == "done"}
    told = history["orders"]
    assert (told["files_before"], told["files_after"], told["bytes_before"], told["bytes_after"]) == (40, 1, 4000, 3000)
    assert (told["version_after"], told["files_deleted"], told["retention_hours"], told["seconds"]) == (13, 7, 168, 1.5)
    assert history["paused"]["left_alone"] == "it is stopped: paused"
    assert done.summary["files_deleted"].value == 7


def test_a_table_that_fails_fails_the_run_and_no_other_table(conf: Path) -> None:
    """The others are looked after."""
    done = run(conf, "shop.odd", "shop.orders")
    assert not done.success
    assert done.failure == "1 of 2 tables failed: shop.odd\nshop.odd: failed: the disk is full at /lake. Make room."
    outcomes = {asset.rpartition("/")[2]: told["outcome"] for asset, told in done.history}
    assert outcomes == {"odd": "failed", "orders": "done"}


def test_change_logs_are_maintained_as_log_retention_says(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in the history of its own asset; those of tables that are not named are left out."""
    asked = []

    def log(_: LogUpkeep, table: str, kept: Retention) -> Maintained:
        asked.append((table, kept))
        return Maintained(f"{table}__log", left="the table has no change log")

    monkeypatch.setattr(maintain.LogUpkeep, "log", log)
    monkeypatch.setattr(Lake, "logs", lambda *_: ["shop.orders", "shop.users"])
    done = run(conf, "shop.orders")
    assert done.success
    assert asked == [("shop.orders", Retention(None, alone=False))]
    assert "orders__log" in {asset.rpartition("/")[2] for asset, _ in done.history}


def test_the_command_does_what_a_defs_yaml_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one is given: its layouts, its time for logs, its freshness. Logs are brought to fewer features too."""
    seen: list[Any] = []

    def table(upkeep: Upkeep, *_: str) -> Maintained:
        seen.append((upkeep.readers, upkeep.lake.layouts, upkeep.lake.catalog, upkeep.stays))
        return Maintained("shop.orders", left="none")

    def log(upkeep: LogUpkeep, table: str, kept: Retention) -> Maintained:
        seen.append((upkeep.readers, kept))
        return Maintained(f"{table}__log", left="none")

    monkeypatch.setattr(maintain.Upkeep, "table", table)
    monkeypatch.setattr(maintain.LogUpkeep, "log", log)
    monkeypatch.setattr(Lake, "logs", lambda *_: ["shop.orders"])
    monkeypatch.setattr(maintain.Upkeep, "has_history", lambda *_: False)
    settings = Settings(
        destination="shop", lake="/lake", freshness="asap", log_retention="30d", deletion_vectors=Vectors.NEVER,
        catalog="hive",
    )  # fmt: skip
    conf, order = write_conf(tmp_path / "conf"), Maintain(tables=["shop.orders"], readers=True)
    for declared in (settings, None):
        at = access_of("shop", lake=str(tmp_path), conf=conf, spark=NOWHERE, declared=declared)
        assert run_verb(order, at, as_json=True) == 0
    assert seen[:2] == [(True, Layouts(Vectors.NEVER), CatalogRules("hive"), True), (True, Retention(720))]
    assert seen[2:] == [(True, None, None, False), (True, Retention())]


def test_a_time_that_is_asked_for_is_not_that_of_logs_alone(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a table whose mode is `append` are nowhere else: only defs.yaml says how long they are kept."""
    asked = {}

    def log(_: LogUpkeep, table: str, kept: Retention) -> Maintained:
        asked[table] = kept
        return Maintained(f"{table}__log", left="none")

    monkeypatch.setattr(maintain.LogUpkeep, "log", log)
    monkeypatch.setattr(Lake, "logs", lambda *_: ["shop.events", "shop.orders"])
    tables = {"shop.events": Mode.APPEND, "shop.orders": Mode.LAND_FIRST}
    settings = Settings(destination="shop", lake=str(conf), apply=ApplyRules(tables=tables))
    asking = {"tables": [*tables], "reason": "nightly", "log_retention": "30d"}
    assert executed(Maintain, "http://127.0.0.1:1", conf, settings=settings, **asking).success
    assert asked == {"shop.events": Retention(None, alone=True), "shop.orders": Retention(720)}


def test_a_history_that_cannot_be_looked_for_fails_alone(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tables are maintained, and the run has its summary."""

    def unreadable(*_: object) -> bool:
        raise LakeError("the store is away", place="/lake", hint="Look at it.")

    monkeypatch.setattr(maintain.LogUpkeep, "log", lambda _, table, __: Maintained(f"{table}__log", left="none"))
    monkeypatch.setattr(Lake, "logs", lambda *_: ["shop.orders"])
    monkeypatch.setattr(maintain.Upkeep, "has_history", unreadable)
    monkeypatch.setattr(maintain.Upkeep, "history", unreadable)
    done = run(conf, "shop.orders")
    assert done.failure.splitlines()[0] == "1 of 3 tables failed: shop.orders__history"
    assert "the store is away" in done.summary["tables"].value["shop.orders__history"]


def test_histories_are_maintained(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in the history of its own asset; most logs have none."""
    monkeypatch.setattr(maintain.LogUpkeep, "log", lambda _, table, __: Maintained(f"{table}__log", left="none"))
    monkeypatch.setattr(Lake, "logs", lambda *_: ["shop.orders", "shop.users"])
    monkeypatch.setattr(maintain.Upkeep, "has_history", lambda _, table: table == "shop.users")
    monkeypatch.setattr(maintain.Upkeep, "history", lambda _, table: Maintained(f"{table}__history", left="new"))
    done = run(conf, "shop.orders", "shop.users")
    assert done.success
    told = {asset.rpartition("/")[2]: told for asset, told in done.history if told["outcome"] == "done"}
    assert told["users__history"]["left_alone"] == "new"
    assert "orders__history" not in told


def test_an_empty_reason_is_refused(conf: Path) -> None:
    """Before anything is done."""
    assert "the reason is empty" in run(conf, "shop.orders", reason=" ").failure


def test_a_catalog_that_is_away_fails_alone(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables are maintained, and the run says what became of the catalog."""

    def away(*_: Any) -> None:
        raise LakeError("the catalog does not answer", place="unity", hint="Start it.")

    monkeypatch.setattr(maintain, "register", away)
    lake, said = Lake(conf / "lake", catalog=CatalogRules("unity")), Said()
    service: Any = nullcontext(SimpleNamespace(tables=lambda: [SimpleNamespace(name="shop.orders")]))
    at = Access("shop", 1001, lambda: service, lambda: Sessions("sc://127.0.0.1:1"), lake)

    maintain.run(Maintain(), at, said)

    assert set(said.done) == {"orders"}
    assert said.failed == {"shop": "the catalog does not answer at unity. Start it."}

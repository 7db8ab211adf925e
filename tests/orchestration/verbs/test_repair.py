"""The job that repairs rows, and the check that compares by the clock, without a source: what they report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_core.doors.http import HttpDoor
from cdc_core.errors import SourceUnavailable
from cdc_core.position import EntryPosition
from orchestration.assets import audit
from orchestration.settings import Settings
from orchestration.verbs import verify
from orchestration.verbs.orders import Verify
from spark_jobs.lake.remedy import copy_hint, repair_hint
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode
from spark_jobs.snapshot.source import Source
from spark_jobs.verify.comparer import TableComparer, compared
from spark_jobs.verify.verified import Comparison, Verified
from tests.support.door_double import Destination, Server, opened
from tests.support.jobs import executed, resources

AT = EntryPosition("bin.000001", 400)
EQUAL = Comparison(7, 7, 0, 0, 0)
FOUND = {
    "shop.orders": Verified("shop.orders", EQUAL, AT, repaired=3),
    "shop.users": Verified("shop.users", EQUAL, AT),
    "shop.log": Verified("shop.log", Comparison(7, 6, 1, 0, 0), AT, remedy=copy_hint("shop", "shop.log")),
    "shop.late": Verified(
        "shop.late", Comparison(7, 8, 0, 1, 0), AT, remedy=repair_hint("shop", "shop.late"), repairable=True
    ),
    "shop.odd": Verified("shop.odd", None, AT, error="the table is stopped: damaged"),
}


class Tables:
    """In the place of a connector."""

    destination, client_id = "shop", 1001


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def comparison(*_: object) -> TableComparer:
        connector: Any = Tables()
        return TableComparer(connector, Source("x", 1, "u", "p"), Lake(tmp_path))

    def found(_: TableComparer, tables: Any) -> Iterator[Verified]:
        for database, table in tables:
            yield FOUND[f"{database}.{table}"]

    for module in (verify, audit):
        monkeypatch.setattr(module, "comparison", comparison)
        monkeypatch.setattr(module, "compared", found)
    return tmp_path


def test_the_job_reports_what_was_repaired(conf: Path) -> None:
    """In the history of each asset, with the reason; the sum is the run's."""
    done = executed(
        Verify, "http://127.0.0.1:1", conf, tables=["shop.orders", "shop.users"], repair=True, reason="damaged"
    )
    assert done.success
    assert [(asset, told["outcome"]) for asset, told in done.history] == [
        (f"delta/shop/shop/{table}", outcome) for table in ("orders", "users") for outcome in ("begun", "done")
    ]
    told = done.history[1][1]
    assert (told["repaired"], told["missing"], told["position"], told["reason"]) == (3, 0, str(AT), "damaged")
    assert done.summary["repaired"].value == 3


def test_a_table_that_is_not_right_fails_the_run(conf: Path) -> None:
    """And stops no other; its history has the remedy."""
    done = executed(
        Verify,
        "http://127.0.0.1:1",
        conf,
        tables=["shop.log", "shop.odd", "shop.orders"],
        repair=True,
        reason="damaged",
    )
    assert not done.success
    assert done.failure.splitlines()[0] == "2 of 3 tables failed: shop.log, shop.odd"
    history = {asset.rpartition("/")[2]: told for asset, told in done.history}
    assert [history[name]["outcome"] for name in ("log", "odd", "orders")] == ["failed", "failed", "done"]
    assert "sluice copy shop shop.log" in history["log"]["remedy"]
    assert "the table is stopped" in done.summary["tables"].value["shop.odd"]


def test_a_table_of_the_lake_that_cannot_be_looked_for_fails_alone(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source does not answer when it is asked for a table that the lake alone has: the others are reported, and the
    run has its summary."""

    def unanswered(_: TableComparer, database: str, table: str) -> Verified:
        if table == "gone":
            raise SourceUnavailable("the source went away", place="x:1", hint="See that it runs.")
        return FOUND[f"{database}.{table}"]

    monkeypatch.setattr(verify, "compared", compared)
    monkeypatch.setattr(TableComparer, "await_lake", lambda _: AT)
    monkeypatch.setattr(TableComparer, "dropped_unseen", unanswered)
    monkeypatch.setattr(Lake, "live_tables", lambda *_: ["shop.gone", "shop.odd"])
    with opened(HttpDoor(Server(Destination()), "127.0.0.1", 0)) as door:
        done = executed(Verify, door.url, conf, tables=[], repair=True, reason="damaged")
    assert "2 of 2 tables failed: shop.gone, shop.odd" in done.failure
    assert "the source went away" in done.summary["tables"].value["shop.gone"]


def test_an_empty_reason_is_refused(conf: Path) -> None:
    """Before anything is compared."""
    done = executed(Verify, "http://127.0.0.1:1", conf, tables=["shop.orders"], reason=" ")
    assert not done.success
    assert "the reason is empty" in done.failure


def test_the_check_says_what_differs_and_what_to_run(conf: Path) -> None:
    """An error for rows that differ, a warning for a table that was not compared."""
    checks = audit.audit_checks(Settings(destination="shop", lake=str(conf)), list(FOUND))
    done = dg.materialize([checks], resources=resources(conf), selection=dg.AssetSelection.checks(checks))
    found = {one.asset_key.path[-1]: one for one in done.get_asset_check_evaluations()}
    passed = {name: one.passed for name, one in found.items()}
    assert passed == {"orders": True, "users": True, "log": False, "late": False, "odd": False}
    assert found["late"].severity is dg.AssetCheckSeverity.ERROR
    assert found["late"].metadata["job"].value == "verify_shop"
    assert "sluice verify --repair --destination shop --table shop.late" in str(found["late"].metadata["remedy"].value)
    assert found["late"].metadata["extra"].value == 1
    assert found["log"].metadata["job"].value == "snapshot_shop"
    assert found["odd"].severity is dg.AssetCheckSeverity.WARN
    assert "the table is stopped" in str(found["odd"].description)


def test_the_check_of_a_history_says_what_differs(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TableComparer the one of its table. A history that is not there yet is no fault."""
    told = {
        "shop.orders": Verified("shop.orders__history", Comparison(7, 8, 0, 1, 0), AT, remedy="Move the folder"),
        "shop.users": Verified("shop.users__history", None, AT, error="the history has not caught up with its table"),
    }
    monkeypatch.setattr(audit, "histories_compared", lambda _, tables: (told[one] for one in tables if one in told))
    settings = Settings(destination="shop", lake=str(conf), apply=Mode.HISTORY)
    checks = audit.audit_checks(settings, ["shop.orders", "shop.users", "shop.late"])
    done = dg.materialize([checks], resources=resources(conf), selection=dg.AssetSelection.checks(checks))
    found = {one.asset_key.path[-1]: one for one in done.get_asset_check_evaluations()}
    assert {name: one.passed for name, one in found.items()} == {
        "orders": True,
        "users": True,
        "late": False,
        "orders__history": False,
        "users__history": False,
        "late__history": True,
    }
    assert found["orders__history"].severity is dg.AssetCheckSeverity.ERROR
    assert "Move the folder" in str(found["orders__history"].description)
    assert found["users__history"].severity is dg.AssetCheckSeverity.WARN
    assert "not caught up with its table" in str(found["users__history"].description)

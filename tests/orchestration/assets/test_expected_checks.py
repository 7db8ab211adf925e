"""What Dagster shows of expectations; real Dagster over doubles of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import dagster as dg

from cdc_core.contract.claim import Claim
from cdc_core.errors import LakeError, ServiceUnavailable
from orchestration.assets.drain_asset import delta_asset, drain_job
from orchestration.assets.landed import LandedTables
from orchestration.assets.lineage import declared
from orchestration.settings import Settings
from spark_jobs.apply.result import BatchResult, Refusal
from spark_jobs.expectations.expectation import Severity
from spark_jobs.expectations.results import ExpectationResult
from spark_jobs.lake.blocking import TableBlocked
from tests.support.canal_double import ORDERS, USERS, MemoryCanal, MemoryLake

EXPECTED = {
    "shop.orders": [
        {"not_null": "id", "severity": "block"},
        {"range": {"qty": {"min": 0}}, "severity": "quarantine"},
        {"sql": "SELECT * FROM changes WHERE qty > 5", "name": "few"},
    ]
}
QTY = ExpectationResult("range_qty", Severity.QUARANTINE, 10)
ID = ExpectationResult("not_null_id", Severity.BLOCK, 10)
FEW = ExpectationResult("few", Severity.WARN, 10)


class Batches:
    """Gives orders these results, batch by batch."""

    def __init__(self, *batches: Sequence[ExpectationResult]) -> None:
        self._batches = batches

    def __call__(self, claim: Claim, batch: BatchResult) -> BatchResult:
        results = tuple(self._batches[claim.batch_id - 1])
        applied = tuple(
            replace(one, commit=replace(one.commit, expected=results))
            if one.table == "shop.orders" and one.commit
            else one
            for one in batch.applied
        )
        stops = [one for one in results if one.stops]
        if not stops:
            return replace(batch, applied=applied)
        error = TableBlocked("3 rows fail not_null_id (id=1)", place="shop.orders", hint="Accept it.")
        left = tuple(one for one in applied if one.table != "shop.orders")
        return replace(batch, applied=left, refused=(Refusal("shop.orders", error, expected=results),))


def drain(
    canal: MemoryCanal, lake: MemoryLake, instance: dg.DagsterInstance, *, planned: bool = False
) -> dict[str, dg.AssetCheckEvaluation]:
    """Returns the last evaluation of each check that is expected of orders."""
    return {one.check_name: one for one in evaluations(canal, lake, instance, planned=planned)}


def evaluations(
    canal: MemoryCanal, lake: MemoryLake, instance: dg.DagsterInstance, *, planned: bool = False
) -> list[dg.AssetCheckEvaluation]:
    """Returns all evaluations of them, in order."""
    settings = Settings(
        destination="shop", lake="/lake", tables=["shop.orders", "shop.users"], linger_seconds=0, report_seconds=0,
        expectations=EXPECTED,
    )  # fmt: skip
    tables = LandedTables(
        settings.modes,
        declared(settings, [ORDERS, USERS]),
        {"shop.orders": settings.expected.of("shop.orders")},
    )
    resources = {"canal_shop": canal, "lake_shop": lake}
    if planned:
        result = dg.materialize([delta_asset(settings, tables)], resources=resources, instance=instance)
    else:
        jobs = dg.Definitions(jobs=[drain_job(settings, tables)], resources=resources)
        result = jobs.resolve_job_def("drain_shop").execute_in_process(instance=instance)
    assert result.success
    names = {"not_null_id", "range_qty", "few"}
    return [one for one in result.get_asset_check_evaluations() if one.check_name in names]


def test_an_expectation_is_a_check_with_its_counts() -> None:
    """Its severity, its query, the keys of some rows that fail, and how many wait."""
    bad = replace(QTY, bad=3, keys=("id=1", "id=2"), waiting=5)
    found = drain(MemoryCanal(batches=1), MemoryLake(Batches([ID, bad, FEW])), dg.DagsterInstance.ephemeral())
    assert (found["not_null_id"].passed, found["few"].passed) == (True, True)
    shown = found["range_qty"]
    assert (shown.passed, shown.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert shown.description == "3 of 10 rows fail, such as id=1; id=2, 5 rows wait in the quarantine"
    facts = {name: value.value for name, value in shown.metadata.items()}
    assert (facts["bad_rows"], facts["rows"], facts["quarantined"], facts["keys"]) == (3, 10, 5, ["id=1", "id=2"])


def test_rows_that_wait_keep_a_check_red_until_they_end() -> None:
    """A batch without any of them does not turn it green, nor does a run without rows; one that ends them does."""
    waits, instance = replace(QTY, waiting=2), dg.DagsterInstance.ephemeral()
    first = drain(MemoryCanal(batches=1), MemoryLake(Batches([ID, replace(waits, bad=2), FEW])), instance)
    assert not first["range_qty"].passed
    assert "range_qty" not in drain(MemoryCanal(batches=0), MemoryLake(), instance)
    again = drain(MemoryCanal(batches=1), MemoryLake(Batches([ID, waits, FEW])), instance)
    assert not again["range_qty"].passed
    assert drain(MemoryCanal(batches=1), MemoryLake(Batches([ID, QTY, FEW])), instance)["range_qty"].passed


def test_a_block_is_an_error_of_its_table_alone() -> None:
    """It is shown before the ack, its table is stopped, and the others go on."""
    canal = MemoryCanal(batches=2)
    lake = MemoryLake(Batches([ID, QTY, FEW], [replace(ID, bad=3, keys=("id=1",)), QTY, FEW]))
    found = drain(canal, lake, dg.DagsterInstance.ephemeral())
    assert (found["not_null_id"].passed, found["not_null_id"].severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert canal.log == ["claim 1", "ack 1", "claim 2", "stop shop.orders", "ack 2"]
    assert canal.stopped[0].hint == "Accept it."
    assert canal.stopped[0].is_blocked
    assert not canal.stopped[0].copy_needed


def test_rows_that_wait_are_reported_after_the_batch() -> None:
    """The service then shows them. When the service is away for it, the batch is acked all the same."""
    canal, lake = MemoryCanal(batches=2), MemoryLake(Batches([ID, QTY, FEW], [ID, QTY, FEW]))
    lake.has_quarantines, lake.waiting = True, {"shop.orders": 3}
    drain(canal, lake, dg.DagsterInstance.ephemeral())
    assert canal.quarantined == {"shop.orders": 3}
    assert canal.reports[0] == ({"shop.orders": 3}, True)
    canal = MemoryCanal(batches=1)
    canal.report_error = ServiceUnavailable("away", place="x", hint="Wait.")
    drain(canal, lake, dg.DagsterInstance.ephemeral())
    assert (canal.log, canal.quarantined) == (["claim 1", "ack 1"], {})


def test_a_block_that_was_lifted_ends_the_red_check() -> None:
    """Also without a further batch of the table: a person accepted the rows, or it was copied."""
    lake, instance = MemoryLake(Batches([replace(ID, bad=3, keys=("id=1",)), QTY, FEW])), dg.DagsterInstance.ephemeral()
    lake.has_quarantines = True
    canal = MemoryCanal(batches=1)
    assert not drain(canal, lake, instance)["not_null_id"].passed
    again = MemoryCanal(batches=0)
    again.stopped = canal.stopped
    assert "not_null_id" not in drain(again, lake, instance)
    over = drain(MemoryCanal(batches=0), lake, instance)
    assert (over["not_null_id"].passed, "range_qty" in over, "few" in over) == (True, False, False)
    assert "not_null_id" not in drain(MemoryCanal(batches=0), lake, instance)


def test_rows_that_a_copy_ended_end_the_red_check() -> None:
    """As long as some wait, or that is not known, it stays red."""
    bad = replace(QTY, bad=3, keys=("id=1",), waiting=3)
    lake, instance = MemoryLake(Batches([ID, bad, replace(FEW, bad=1)])), dg.DagsterInstance.ephemeral()
    lake.has_quarantines, lake.waiting = True, {"shop.orders": 3}
    assert not drain(MemoryCanal(batches=1), lake, instance)["range_qty"].passed
    assert "range_qty" not in drain(MemoryCanal(batches=0), lake, instance)
    lake.waiting, lake.count_error = {}, LakeError("away", place="x", hint="Wait.")
    assert "range_qty" not in drain(MemoryCanal(batches=0), lake, instance)
    lake.count_error = None
    over = drain(MemoryCanal(batches=0), lake, instance)
    assert (over["range_qty"].passed, "few" in over) == (True, False)


def test_a_run_yields_every_expectation_that_was_selected() -> None:
    """Also one of a table without rows."""
    found = drain(MemoryCanal(batches=0), MemoryLake(), dg.DagsterInstance.ephemeral(), planned=True)
    assert {name: one.passed for name, one in found.items()} == {"not_null_id": True, "range_qty": True, "few": True}


def test_a_materialization_has_the_rows_that_failed() -> None:
    """Dagster plots them over time."""
    instance = dg.DagsterInstance.ephemeral()
    drain(
        MemoryCanal(batches=1), MemoryLake(Batches([ID, replace(QTY, bad=3, waiting=5), replace(FEW, bad=1)])), instance
    )
    event = instance.get_latest_materialization_event(dg.AssetKey(["delta", "shop", "shop", "orders"]))
    assert event is not None
    assert event.asset_materialization is not None
    facts = event.asset_materialization.metadata
    assert (facts["bad_rows"].value, facts["quarantined_rows"].value) == (4, 5)


def test_rows_that_fail_batch_after_batch_have_one_event() -> None:
    """Before the ack of the first such batch; the materializations have the sums, and the end of the run the words."""
    batches = [[ID, replace(QTY, bad=n, waiting=n), FEW] for n in (1, 2, 3)]
    found = evaluations(MemoryCanal(batches=3), MemoryLake(Batches(*batches)), dg.DagsterInstance.ephemeral())
    texts = [one.description or "" for one in found if one.check_name == "range_qty"]
    assert [text.split()[0] for text in texts] == ["1", "3"]

"""A run: what is acked, what goes back, and what Dagster is told, with real Dagster over doubles of its two sides."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from cdc_core.client.failures import unavailable
from cdc_core.errors import LakeError, TableStopped
from cdc_core.session.claim import Claim
from orchestration import assets, processes
from orchestration.settings import Settings
from spark_jobs.checks import TableResult
from tests.canal_double import ORDERS, USERS, MemoryCanal, MemoryLake

CHECKS = ("key_unique", "position_monotone", "rows_add_up", "takes_changes")


def drain(
    canal: MemoryCanal,
    lake: MemoryLake | None = None,
    listed: Sequence[str] = ("shop.orders", "shop.users"),
    **config: Any,
) -> dg.ExecuteInProcessResult:
    """Materializes the destination's tables once."""
    settings = Settings(destination="shop", lake="/lake", tables=list(listed), linger_seconds=0)
    tables = assets.declared(settings, [ORDERS, USERS])
    return dg.materialize(
        [assets.delta_asset(settings, tables)],
        resources={"canal_shop": canal, "lake_shop": lake or MemoryLake()},
        run_config={"ops": {"cdc_shop": {"config": config}}} if config else None,
        instance=dg.DagsterInstance.ephemeral(),
        raise_on_error=False,
    )


def materialized(result: dg.ExecuteInProcessResult) -> list[dg.AssetMaterialization]:
    return [
        event.step_materialization_data.materialization for event in result.all_events if event.is_step_materialization
    ]


def verdicts(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    """The last evaluation of each check."""
    return {f"{e.asset_key.path[-1]} {e.check_name}": e.passed for e in result.get_asset_check_evaluations()}


def test_three_batches_are_acked_in_order_and_told() -> None:
    """Each batch is merged, acked and logged once a table; every declared check is green."""
    canal, lake = MemoryCanal(batches=3), MemoryLake()

    result = drain(canal, lake)

    assert result.success
    assert canal.log == ["claim 1", "ack 1", "claim 2", "ack 2", "claim 3", "ack 3"]
    assert lake.noted == [1, 2, 3]
    assert [m.asset_key.path[-1] for m in materialized(result)] == ["orders", "users"] * 3
    assert verdicts(result) == {f"{table} {check}": True for table in ("orders", "users") for check in CHECKS}


def test_a_materialization_tells_rows_positions_lag_and_version() -> None:
    """The metadata of one table in one batch."""
    result = drain(MemoryCanal(batches=1))

    told = {key: value.value for key, value in materialized(result)[0].metadata.items()}
    assert told == {
        "rows": 10,
        "inserts": 10,
        "updates": 0,
        "deletes": 0,
        "net_rows": 10,
        "rows_inserted": 10,
        "rows_updated": 0,
        "rows_deleted": 0,
        "start_position": "mysql-bin.000007:0",
        "end_position": "mysql-bin.000007:1000",
        "gtid": "uuid:1-1",
        "batch_id": 1,
        "epoch": 0,
        "merge_seconds": 0.25,
        "replayed": False,
        "run_id": result.run_id,
        "lag_seconds_min": 6.0,
        "lag_seconds_p50": 10.0,
        "lag_seconds_max": 10.0,
        "delta_version": 1,
    }


def test_the_run_is_tagged_with_destination_and_last_position() -> None:
    """Runs can be found by destination, also those started by hand."""
    instance = dg.DagsterInstance.ephemeral()
    settings = Settings(destination="shop", lake="/lake", tables=["shop.orders"], linger_seconds=0)
    asset = assets.delta_asset(settings, {"shop.orders": None})
    resources = {"canal_shop": MemoryCanal(batches=2), "lake_shop": MemoryLake()}

    run_id = dg.materialize([asset], resources=resources, instance=instance).run_id

    run = instance.get_run_by_id(run_id)
    assert run is not None
    assert {key: value for key, value in run.tags.items() if key.startswith("cdc/")} == {
        "cdc/destination": "shop",
        **processes.tag(run_id),
        "cdc/batch_id": "2",
        "cdc/to": "mysql-bin.000007:2000",
    }


def test_an_empty_store_is_a_green_run_with_every_check() -> None:
    """Declared checks are mandatory in Dagster: also zero batches yield each of them."""
    result = drain(MemoryCanal())

    assert result.success
    assert materialized(result) == []
    assert len(verdicts(result)) == 8
    assert all(verdicts(result).values())


def test_a_failed_check_rolls_back_and_is_red() -> None:
    """The second batch does not add up: one ack, one rollback, no retry, a red check."""

    def spoil(claim: Claim, results: list[TableResult]) -> list[TableResult]:
        return [replace(r, inserted=9) if claim.batch_id == 2 and r.table == "shop.users" else r for r in results]

    canal, lake = MemoryCanal(batches=3), MemoryLake(spoil)
    result = drain(canal, lake)

    assert not result.success
    assert canal.log == ["claim 1", "ack 1", "claim 2", "rollback"]
    assert lake.noted == [1]
    assert verdicts(result) == {"users key_unique": False}
    failure = result.failure_data_for_node("cdc_shop")
    assert failure is not None
    assert failure.user_failure_data is not None
    assert "key_unique of shop.users: shop.users: 10 keys met 9 rows" in (failure.user_failure_data.description or "")


def test_a_position_that_goes_back_is_not_acked() -> None:
    """A table that stands beyond the batch's end is an error, not a merge."""

    def spoil(claim: Claim, results: list[TableResult]) -> list[TableResult]:
        return [replace(r, after=claim.end.version()) for r in results]

    canal = MemoryCanal(batches=1)
    result = drain(canal, MemoryLake(spoil))

    assert not result.success
    assert canal.log == ["claim 1", "rollback"]
    assert verdicts(result)["orders position_monotone"] is False


def test_an_exception_rolls_back_and_tells_place_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake error gives the batch back at every try, and Dagster shows its three parts."""
    monkeypatch.setattr(assets, "RETRY_SECONDS", 0.01)

    def spoil(claim: Claim, results: list[TableResult]) -> list[TableResult]:
        raise LakeError("the disk is full", place="/lake/shop/orders", hint="Make room.")

    canal = MemoryCanal(batches=1)
    result = drain(canal, MemoryLake(spoil))

    assert canal.log == ["claim 1", "rollback"] * 3
    failure = result.failure_data_for_node("cdc_shop")
    assert failure is not None
    assert failure.user_failure_data is not None
    told = {key: value.value for key, value in failure.user_failure_data.metadata.items()}
    assert told == {
        "error": "LakeError",
        "message": "the disk is full",
        "place": "/lake/shop/orders",
        "hint": "Make room.",
    }


def test_a_hiccup_is_retried_within_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is not ours, as Spark may throw one, costs a rollback and a second claim."""
    monkeypatch.setattr(assets, "RETRY_SECONDS", 0.01)
    failures = iter([RuntimeError("hiccup")])

    def spoil(claim: Claim, results: list[TableResult]) -> list[TableResult]:
        for failure in failures:
            raise failure
        return results

    canal = MemoryCanal(batches=1)
    result = drain(canal, MemoryLake(spoil))

    assert result.success
    assert canal.log == ["claim 1", "rollback", "claim 1", "ack 1"]


def test_a_claim_whose_answer_was_lost_is_claimed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try does not begin behind it."""
    monkeypatch.setattr(assets, "RETRY_SECONDS", 0.01)
    canal = MemoryCanal(batches=2)
    answers = iter([unavailable("http://127.0.0.1:1", "timed out")])
    claim = canal.get_without_ack

    def lost(*arguments: Any, **named: Any) -> Claim | None:
        found = claim(*arguments, **named)
        for error in answers:
            raise error
        return found

    monkeypatch.setattr(canal, "get_without_ack", lost)
    result = drain(canal, MemoryLake())

    assert result.success
    assert canal.log == ["claim 1", "rollback", "claim 1", "ack 1", "claim 2", "ack 2"]


@pytest.mark.parametrize("end", [dg.DagsterExecutionInterruptedError, KeyboardInterrupt, GeneratorExit])
def test_a_cancelled_or_abandoned_run_rolls_back(end: type[BaseException]) -> None:
    """What ends a run from outside is no Exception, and gives the batch back all the same."""

    def spoil(claim: Claim, results: list[TableResult]) -> list[TableResult]:
        raise end

    canal = MemoryCanal(batches=1)
    with contextlib.suppress(end):
        assert not drain(canal, MemoryLake(spoil)).success

    assert canal.log == ["claim 1", "rollback"]


def test_a_stopped_table_is_noted_before_the_ack_and_stays_red() -> None:
    """One table stops; the other goes on, and each later run says it again."""

    def spoil(claim: Claim, results: list[TableResult]) -> list[TableResult]:
        stop = TableStopped("column 'note' is gone", place="shop.orders", hint="Rewind.")
        return [replace(r, stop=stop) if r.table == "shop.orders" else r for r in results]

    canal = MemoryCanal(batches=2)
    first = drain(canal, MemoryLake(spoil))
    second = drain(canal)

    assert canal.log == ["claim 1", "stop shop.orders", "ack 1", "claim 2", "ack 2"]
    assert [m.asset_key.path[-1] for m in materialized(first)] == ["users", "users"]
    for result in (first, second):
        assert result.success
        assert [name for name, passed in verdicts(result).items() if not passed] == ["orders takes_changes"]
    assert "column 'note' is gone at shop.orders" in canal.stopped[0]["reason"]


def test_a_table_that_is_not_listed_is_applied_and_told() -> None:
    """A claim is acked as a whole, so none of its tables may be left out."""
    canal = MemoryCanal(batches=1)
    result = drain(canal, listed=["shop.orders"])

    assert result.success
    assert [m.asset_key.to_user_string() for m in materialized(result)] == [
        "delta/shop/shop/orders",
        "delta/shop/shop/users",
    ]


def test_a_cursor_ahead_of_the_lake_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong lake is found before the first claim."""
    monkeypatch.setattr(assets, "RETRY_SECONDS", 0.01)
    canal, lake = MemoryCanal(batches=1), MemoryLake()
    lake.cursor_error = LakeError("acked but not there", place="/lake", hint="Name the right lake.")

    assert not drain(canal, lake).success
    assert canal.log == []


def test_max_batches_ends_the_run() -> None:
    """A run's limits can be set for that run alone."""
    canal = MemoryCanal(batches=3)

    assert drain(canal, max_batches=2).success
    assert canal.acked == 2


def test_no_batch_is_begun_after_max_seconds() -> None:
    """The time budget is looked at before a claim, never within one."""
    canal = MemoryCanal(batches=3)

    assert drain(canal, max_seconds=1e-9).success
    assert canal.log == []


def test_the_tables_of_a_destination_cannot_be_torn_apart() -> None:
    """Materializing one table alone is refused: claim, merge and ack belong to all."""
    settings = Settings(destination="shop", lake="/lake", tables=["shop.orders", "shop.users"])
    asset = assets.delta_asset(settings, {"shop.orders": None, "shop.users": None})

    with pytest.raises(dg.DagsterInvalidDefinitionError):
        dg.materialize(
            [asset],
            selection=["delta/shop/shop/orders"],
            resources={"canal_shop": MemoryCanal(), "lake_shop": MemoryLake()},
        )

"""A run: what is acked, what goes back, and what Dagster shows; real Dagster over doubles of both sides."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_core.client.failures import unavailable
from cdc_core.contract.claim import Claim
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import LakeError, TableStopped
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import EffectKind
from orchestration import processes, warmth
from orchestration.assets import reports
from orchestration.assets.drain_asset import delta_asset, drain_job
from orchestration.assets.landed import LandedTables
from orchestration.assets.lineage import declared
from orchestration.assets.tally import Tally
from orchestration.jobs import routine
from orchestration.names import LEFT_TAG, PLACE_TAG, UNTIL_TAG, Names, place_text
from orchestration.settings import Settings
from spark_jobs.apply.result import BatchResult, Followed, Refusal, TableResult
from spark_jobs.lake.doubt import Doubt
from spark_jobs.lake.ledger import TableNote
from spark_jobs.union.publish import Published
from tests.support import canal_double
from tests.support.canal_double import ORDERS, SERVER, USERS, MemoryCanal, MemoryLake

CHECKS = ("key_unique", "position_monotone", "rows_add_up", "takes_changes")


@pytest.fixture(autouse=True)
def _time_for_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a quick batch have a second, also on a slow machine."""
    monkeypatch.setattr(reports, "LEAST", reports.MOMENT)


def drain(
    canal: MemoryCanal,
    lake: MemoryLake | None = None,
    listed: Sequence[str] = ("shop.orders", "shop.users"),
    snapshot: str = "never",
    instance: dg.DagsterInstance | None = None,
    tags: dict[str, str] | None = None,
    report_seconds: float = 0,
    with_checks: bool = True,
    **config: Any,
) -> dg.ExecuteInProcessResult:
    """Materializes the destination's tables once; without its checks by the job, as the sensor does."""
    given = {"linger_seconds": 0, "snapshot": snapshot, "report_seconds": report_seconds}
    settings = Settings(destination="shop", lake="/lake", tables=list(listed), **given)
    tables = LandedTables(settings.modes, declared(settings, [ORDERS, USERS]))
    resources = {"canal_shop": canal, "lake_shop": lake or MemoryLake()}
    instance = instance or dg.DagsterInstance.ephemeral()
    if not with_checks:
        jobs = dg.Definitions(jobs=[drain_job(settings, tables)], resources=resources)
        job = jobs.resolve_job_def("drain_shop")
        given = {"ops": {"drain_shop_op": {"config": config}}} if config else None
        return job.execute_in_process(given, instance=instance, tags=tags, raise_on_error=False)
    return dg.materialize(
        [delta_asset(settings, tables)],
        resources=resources,
        run_config={"ops": {"cdc_shop": {"config": config}}} if config else None,
        instance=instance,
        tags=tags,
        raise_on_error=False,
    )


def committed(batch: BatchResult, changes: Callable[[TableResult], dict[str, Any]]) -> BatchResult:
    """The same batch with other commits."""
    applied = (replace(r, commit=replace(r.commit, **changes(r))) for r in batch.applied if r.commit)
    return BatchResult(tuple(applied), batch.refused)


def materialized(result: dg.ExecuteInProcessResult) -> list[dg.AssetMaterialization]:
    return [
        event.step_materialization_data.materialization for event in result.all_events if event.is_step_materialization
    ]


def verdicts(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    """The last evaluation of each check."""
    return {f"{e.asset_key.path[-1]} {e.check_name}": e.passed for e in result.get_asset_check_evaluations()}


def test_a_batch_that_takes_its_time_says_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that it begins, and lines of what is done; a quick one has the line of its ack alone."""
    monkeypatch.setattr(reports, "LONG", 0.1)
    monkeypatch.setattr(reports, "EVERY", 0.2)

    def slow(claim: Claim, batch: BatchResult) -> BatchResult:
        if claim.batch_id == 2:
            lake.progress.begin(0, 2)
            with lake.progress.table("shop.orders"):
                time.sleep(0.5)
            time.sleep(0.5)
        return batch

    lake, instance = MemoryLake(slow), dg.DagsterInstance.ephemeral()
    result = drain(MemoryCanal(batches=3), lake, instance=instance)

    lines = [entry.user_message for entry in instance.all_logs(result.run_id)]
    (begins,) = [line for line in lines if " begins: " in line]
    assert begins.startswith("batch 2 begins: 20 rows of 2 tables, mysql-bin.")
    done = [line for line in lines if "tables taken" in line]
    assert "0 of 2 tables taken; under way: shop.orders" in done[0]
    assert done[-1].endswith("1 of 2 tables taken")


def test_quick_batches_share_a_line() -> None:
    """The first one has its own at once; the others one in `report_seconds`, at the latest when the run ends."""
    instance = dg.DagsterInstance.ephemeral()

    result = drain(MemoryCanal(batches=3), instance=instance, report_seconds=60)

    lines = [entry.user_message for entry in instance.all_logs(result.run_id) if " acked: " in entry.user_message]
    assert [line.partition(", mysql-bin")[0] for line in lines] == [
        "batch 1 acked: 20 rows of 2 tables",
        "2 batches, 2 to 3, acked: 40 rows of 2 tables",
    ]


def test_three_batches_are_acked_in_order_and_logged() -> None:
    """Each batch is merged, acked and logged once a table; every declared check passes."""
    canal, lake = MemoryCanal(batches=3), MemoryLake()

    result = drain(canal, lake)

    assert result.success
    assert canal.log == ["claim 1", "ack 1", "claim 2", "ack 2", "claim 3", "ack 3"]
    assert lake.noted == [1, 2, 3]
    assert [m.asset_key.path[-1] for m in materialized(result)] == ["orders", "users"] * 3
    assert verdicts(result) == {f"{table} {check}": True for table in ("orders", "users") for check in CHECKS}


def test_a_run_that_merges_claims_when_spark_is_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is connected by then. One that only lands claims at once."""
    mark, claimed = tmp_path / "warming.mark", list[bool]()
    monkeypatch.setenv(warmth.VARIABLE, str(mark))

    class Canal(MemoryCanal):
        @contextlib.contextmanager
        def claim(self, *arguments: Any, **options: Any) -> Any:
            claimed.append(mark.exists())
            with super().claim(*arguments, **options) as claim:
                yield claim

    class Lake(MemoryLake):
        def connect(self) -> int:
            threading.Timer(0.3, mark.unlink).start()
            return super().connect()

    for merges in (True, False):
        lake = Lake()
        lake.needs_spark = merges
        mark.touch()
        assert drain(Canal(batches=1), lake).success
        assert claimed[0] is not merges
        assert mark.exists() is not merges
        assert lake.connected == int(merges)
        claimed.clear()


def test_as_many_tables_go_side_by_side_as_spark_has_cores() -> None:
    """Unless the run's config names a number."""
    for config, expected in (({}, 3), ({"parallelism": 7}, 7)):
        lake = MemoryLake()
        assert drain(MemoryCanal(batches=2), lake, **config).success
        assert lake.side_by_side == [expected] * 2


def test_a_spark_that_is_away_fails_no_run_without_rows() -> None:
    """The first batch needs it, and says so."""

    class Away(MemoryLake):
        def connect(self) -> int:
            raise LakeError("Spark is away", place="spark", hint="Start it.")

    assert drain(MemoryCanal(batches=0), Away()).success


def test_a_stop_ends_with_the_ack_of_the_batch_that_mended_its_table() -> None:
    """Not with one that is given back. Afterwards the table's check is green."""
    canal, orders = MemoryCanal(batches=2), ORDERS.name
    canal.stop_table(orders, reason="a column changed", hint="Copy it.", position=EntryPosition("mysql-bin.000007", 0))
    died: list[int] = []

    def mends_second(claim: Claim, batch: BatchResult) -> BatchResult:
        if claim.start.position == 0:
            return batch
        if not died:
            died.append(claim.batch_id)
            raise LakeError("Spark is away", place="spark", hint="Start it.")
        return replace(batch, whole=(orders,))

    result = drain(canal, MemoryLake(mends_second))

    assert died
    assert canal.stopped == []
    assert verdicts(result)[f"{ORDERS.table} takes_changes"]


def test_a_materialization_has_rows_positions_lag_and_version() -> None:
    """The metadata of one table in one batch."""
    result = drain(MemoryCanal(batches=1))

    metadata = {key: value.value for key, value in materialized(result)[0].metadata.items()}
    seconds = metadata.pop("sluice/seconds")
    assert seconds.pop("ack") > 0  # the drain's clock is not that of the doubles
    assert seconds == {"claim": 8.5, "plan": 1.0, "write": 0.5}
    assert sum(seconds.values()) == metadata["lag_seconds_max"]
    assert metadata == {
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
        "gtid": f"{SERVER}:1",
        "batch_id": 1,
        "epoch": 0,
        "merge_seconds": 0.25,
        "replayed": False,
        "run_id": result.run_id,
        "lag_seconds_min": 6.0,
        "lag_seconds_p50": 10.0,
        "lag_seconds_max": 10.0,
        "delta_version": 1,
        "explain": "sluice explain shop shop.orders --batch 1",
        "place": place_text(0, EntryPosition("mysql-bin.000007", 1000).version()),
    }
    assert materialized(result)[0].tags == dict.fromkeys((PLACE_TAG, "dagster/data_version"), metadata["place"])


def test_a_union_whose_files_changed_is_materialized() -> None:
    """Once a batch, with the place that its rows are of."""

    def unions(_: Claim, batch: BatchResult) -> BatchResult:
        return replace(batch, published=(Published("all.orders", 3, 2, 1), Published("all.users", 1)))

    (found,) = [
        one for one in materialized(drain(MemoryCanal(batches=1), MemoryLake(unions))) if "all" in one.asset_key.path
    ]
    assert found.asset_key.path == ["delta", "shop", "all", "orders"]
    metadata = {key: value.value for key, value in found.metadata.items() if key != "run_id"}
    place = place_text(0, EntryPosition("mysql-bin.000007", 1000).version())
    assert metadata == {"delta_version": 3, "files_added": 2, "files_removed": 1, "place": place}


def test_the_run_is_tagged_with_destination_and_last_position() -> None:
    """Runs can be found by destination, including those started by hand."""
    instance = dg.DagsterInstance.ephemeral()
    settings = Settings(destination="shop", lake="/lake", tables=["shop.orders"], linger_seconds=0)
    asset = delta_asset(settings, LandedTables(settings.modes, {"shop.orders": None}))
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
    """Dagster wants every declared check from a run, even of zero batches."""
    result = drain(MemoryCanal())

    assert result.success
    assert materialized(result) == []
    assert len(verdicts(result)) == 8
    assert all(verdicts(result).values())


def test_a_table_that_fails_a_blocking_check_is_parked_alone() -> None:
    """The run succeeds and acks every batch; from there on the other table alone takes changes."""

    def spoil(claim: Claim, batch: BatchResult) -> BatchResult:
        wrong = claim.batch_id == 2
        return committed(batch, lambda r: {"inserted": 11} if wrong and r.table == "shop.users" else {})

    canal, lake = MemoryCanal(batches=3), MemoryLake(spoil)
    result = drain(canal, lake)

    assert result.success
    assert canal.log == ["claim 1", "ack 1", "claim 2", "stop shop.users", "ack 2", "claim 3", "ack 3"]
    assert lake.noted == [1, 2, 3]
    assert [m.asset_key.path[-1] for m in materialized(result)] == ["orders", "users", "orders", "orders"]
    failed = {name for name, passed in verdicts(result).items() if not passed}
    assert failed == {"users key_unique", "users rows_add_up", "users takes_changes"}
    assert "10 keys matched 11 rows at shop.users, batch 2" in canal.stopped[0].reason
    assert "`sluice copy shop shop.users`" in canal.stopped[0].hint


def test_rows_that_were_not_as_presumed_are_a_warning_of_their_table() -> None:
    """Every batch is acked; the check of that table alone is not passed, with the severity of a warning."""

    def spoil(claim: Claim, batch: BatchResult) -> BatchResult:
        odd = claim.batch_id == 1
        return committed(batch, lambda r: {"inserted": 7, "updated": 3} if odd and r.table == "shop.users" else {})

    canal = MemoryCanal(batches=2)
    result = drain(canal, MemoryLake(spoil))

    assert result.success
    assert canal.log == ["claim 1", "ack 1", "claim 2", "ack 2"]
    assert [name for name, passed in verdicts(result).items() if not passed] == ["users rows_add_up"]
    for shown in [e for e in result.get_asset_check_evaluations() if not e.passed]:
        assert shown.severity == dg.AssetCheckSeverity.WARN
        assert shown.metadata["inserts_met"].value == 3
        assert "3 inserts met a row" in (shown.description or "")


def test_a_doubtful_table_stays_a_warning_in_later_runs() -> None:
    """Also in a run without rows of it, with some keys and the remedy, until it is reloaded."""
    lake = MemoryLake()
    lake.known_doubts["shop.users"] = Doubt(met=1, missed=2, keys=("id=5", "id=6"))

    result = drain(MemoryCanal(), lake)

    (shown,) = [e for e in result.get_asset_check_evaluations() if not e.passed]
    assert (shown.asset_key.path[-1], shown.check_name) == ("users", "rows_add_up")
    assert shown.severity == dg.AssetCheckSeverity.WARN
    assert shown.metadata["keys"].value == ["id=5", "id=6"]
    assert "1 inserts met a row in the lake; 2 updates or deletes found no row, such as id=5; id=6" in str(shown)
    assert "`sluice copy shop shop.users`" in str(shown)


def test_a_doubtful_table_is_a_warning_in_each_run_that_changes_it() -> None:
    """Once a run: with a newer materialization Dagster shows no check that an earlier run evaluated."""
    lake, instance = MemoryLake(), dg.DagsterInstance.ephemeral()
    lake.known_doubts["shop.users"] = Doubt(met=1)
    drain(MemoryCanal(batches=1), lake, instance=instance, with_checks=False)

    result = drain(MemoryCanal(batches=2), lake, instance=instance, with_checks=False)

    (shown,) = result.get_asset_check_evaluations()
    assert (shown.asset_key.path[-1], shown.check_name, shown.passed) == ("users", "rows_add_up", False)
    assert drain(MemoryCanal(), lake, instance=instance, with_checks=False).get_asset_check_evaluations() == []


def test_a_doubt_goes_with_the_rows_of_a_renamed_table() -> None:
    """Also through several names and in a swap, and when the run that noted it died; a table that is reloaded under
    the old name has none."""
    one, two = Doubt(met=1), Doubt(missed=2)

    def batch(*moves: tuple[int, str, str], outcome: str = "") -> BatchResult:
        at = [EntryPosition("bin.000001", place) for place, *_ in moves]
        followed = [Followed(to, EffectKind.RENAME, "", at[n], outcome, of) for n, (_, to, of) in enumerate(moves)]
        return BatchResult(followed=tuple(followed))

    def tally(**doubts: Doubt) -> Tally:
        return Tally(Names("shop"), (), doubts=dict(doubts), noted=dict(doubts))

    chain = batch((5, "b", "a"), (5, "a", ""), (6, "c", "b"), (6, "b", ""))
    assert tally(a=one).doubts_to_note(chain) == {"a": Doubt(), "c": one}
    assert chain.notes({"a": Doubt(), "c": one}) == {"a": TableNote(doubt=Doubt()), "c": TableNote(doubt=one)}
    known = tally(a=one, b=two)
    swap = batch((5, "b", "a"), (5, "a", "b"))
    noted = known.doubts_to_note(swap)
    assert noted == {"a": two, "b": one}
    known.add(swap, (), noted)
    assert (known.doubts, known.doubts_to_note(batch())) == ({"a": two, "b": one}, {})
    again = batch((5, "b", "a"), (5, "a", ""), outcome="done before")
    assert tally(b=one).doubts_to_note(again) == {}
    assert tally(a=one).doubts_to_note(again)["b"] == one


def test_a_doubt_is_noted_and_shown_when_it_begins_and_when_it_has_doubled() -> None:
    """A lake that began late has few notes of a table, not one for each batch; the end of the run shows all rows."""

    def spoil(claim: Claim, batch: BatchResult) -> BatchResult:
        return committed(batch, lambda r: {"inserted": 9, "updated": 1} if r.table == "shop.users" else {})

    lake = MemoryLake(spoil)
    result = drain(MemoryCanal(batches=5), lake)

    shown = [e.metadata["inserts_met"].value for e in result.get_asset_check_evaluations() if not e.passed]
    assert shown == [1, 1, 1, 5]  # batches 1, 2 and 4; then the run's end
    assert lake.known_doubts == {"shop.users": Doubt(met=4)}


def test_a_table_whose_position_goes_back_is_parked() -> None:
    """A table that is beyond the end of the batch takes no more changes."""

    def spoil(claim: Claim, batch: BatchResult) -> BatchResult:
        return committed(batch, lambda r: {"after": claim.end.version()} if r.table == "shop.orders" else {})

    canal = MemoryCanal(batches=1)
    result = drain(canal, MemoryLake(spoil))

    assert result.success
    assert canal.log == ["claim 1", "stop shop.orders", "ack 1"]
    assert verdicts(result)["orders position_monotone"] is False


def test_a_block_of_logs_ends_when_no_run_merges_them() -> None:
    """The next drain reports what the lake says, if the service shows any."""
    canal, lake = MemoryCanal(), MemoryLake()
    drain(canal, lake)
    assert canal.log == []
    canal.blocked = (StoppedTable("shop.users", "2 rows fail", "Accept it.", None, kind="blocked"),)
    drain(canal, lake)
    assert canal.blocked == ()


def test_an_exception_rolls_back_and_reports_place_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake error gives the batch back at every try, and Dagster shows its three parts."""
    monkeypatch.setattr(routine, "RETRY_SECONDS", 0.01)

    def spoil(claim: Claim, batch: BatchResult) -> BatchResult:
        raise LakeError("the disk is full", place="/lake/shop/orders", hint="Make room.")

    canal = MemoryCanal(batches=1)
    result = drain(canal, MemoryLake(spoil))

    assert canal.log == ["claim 1", "rollback"] * 3
    failure = result.failure_data_for_node("cdc_shop")
    assert failure is not None
    assert failure.user_failure_data is not None
    metadata = {key: value.value for key, value in failure.user_failure_data.metadata.items()}
    assert metadata == {
        "error": "LakeError",
        "message": "the disk is full",
        "place": "/lake/shop/orders",
        "hint": "Make room.",
    }


def test_a_foreign_error_is_retried_within_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign error, as Spark may raise, costs a rollback and a second claim."""
    monkeypatch.setattr(routine, "RETRY_SECONDS", 0.01)
    failures = iter([RuntimeError("hiccup")])

    def spoil(claim: Claim, batch: BatchResult) -> BatchResult:
        for failure in failures:
            raise failure
        return batch

    canal = MemoryCanal(batches=1)
    result = drain(canal, MemoryLake(spoil))

    assert result.success
    assert canal.log == ["claim 1", "rollback", "claim 1", "ack 1"]


def test_a_claim_whose_answer_was_lost_is_claimed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try does not begin after it."""
    monkeypatch.setattr(routine, "RETRY_SECONDS", 0.01)
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
    """What ends a run from outside is not an Exception, and still gives the batch back."""

    def spoil(claim: Claim, batch: BatchResult) -> BatchResult:
        raise end

    canal = MemoryCanal(batches=1)
    with contextlib.suppress(end):
        assert not drain(canal, MemoryLake(spoil)).success

    assert canal.log == ["claim 1", "rollback"]


def test_a_stopped_table_is_noted_before_the_ack_and_stays_red() -> None:
    """One table stops, the other goes on, and each later run reports it again."""

    def spoil(claim: Claim, batch: BatchResult) -> BatchResult:
        stop = TableStopped("column 'note' is gone", place="shop.orders", hint="Rewind.")
        taken = tuple(result for result in batch.applied if result.table != "shop.orders")
        refused = tuple(Refusal(r.table, stop) for r in batch.applied if r.table == "shop.orders")
        return BatchResult(taken, refused)

    canal = MemoryCanal(batches=2)
    first = drain(canal, MemoryLake(spoil))
    second = drain(canal)

    assert canal.log == ["claim 1", "stop shop.orders", "ack 1", "claim 2", "ack 2"]
    assert [m.asset_key.path[-1] for m in materialized(first)] == ["users", "users"]
    for result in (first, second):
        assert result.success
        assert [name for name, passed in verdicts(result).items() if not passed] == ["orders takes_changes"]
    assert "column 'note' is gone at shop.orders" in canal.stopped[0].reason


def test_a_table_that_is_not_listed_is_applied_and_reported() -> None:
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
    monkeypatch.setattr(routine, "RETRY_SECONDS", 0.01)
    canal, lake = MemoryCanal(batches=1), MemoryLake()
    lake.cursor_error = LakeError("acked but not there", place="/lake", hint="Name the right lake.")

    assert not drain(canal, lake).success
    assert canal.log == []


def test_max_batches_ends_the_run() -> None:
    """The limits of a run can be set for that run alone."""
    canal = MemoryCanal(batches=3)

    assert drain(canal, max_batches=2).success
    assert canal.acked == 2


def test_no_batch_is_begun_after_max_seconds() -> None:
    """The time budget is checked before a claim, never within one."""
    canal = MemoryCanal(batches=3)

    assert drain(canal, max_seconds=1e-9).success
    assert canal.log == []


@pytest.mark.parametrize(
    ("acked_at", "until", "limits", "left"),
    [
        (2_000, "3000", {"max_batches": 2}, "3000"),
        (3_000, "3000", {"max_batches": 2}, None),  # the rest came later
        (None, "3000", {"max_batches": 2}, "3000"),
        (2_000, "3000", {}, None),  # all that there was
        (2_000, "3000", {"max_seconds": 1e-9}, "3000"),
    ],
)
def test_a_run_that_is_cut_short_says_what_it_left(
    monkeypatch: pytest.MonkeyPatch, acked_at: int | None, until: str, limits: dict[str, Any], left: str | None
) -> None:
    """Rows of before the time that it was given; without one, of before its start."""
    real = canal_double.position
    monkeypatch.setattr(canal_double, "position", lambda number: replace(real(number), timestamp=acked_at))
    for tags, expected in (({UNTIL_TAG: until}, left), ({}, "its start")):
        instance = dg.DagsterInstance.ephemeral()
        began = 1000 * time.time()
        assert drain(MemoryCanal(batches=3), instance=instance, tags=tags, **limits).success
        (run,) = instance.get_runs()
        found = run.tags.get(LEFT_TAG)
        if expected != "its start":
            assert found == expected
        elif limits:
            assert int(found or 0) >= int(began)


def test_a_run_asap_stays_until_its_time() -> None:
    """It drains, and does not end when the store is empty."""
    canal = MemoryCanal(batches=2)
    began = time.monotonic()
    assert drain(canal, freshness="asap", max_seconds=2.0).success
    assert canal.log == ["claim 1", "ack 1", "claim 2", "ack 2"]
    assert time.monotonic() - began >= 2.0


def test_whatever_is_selected_all_tables_are_drained() -> None:
    """Claim, merge and ack belong to all. Only the selected checks have an event each."""
    settings = Settings(destination="shop", lake="/lake", tables=["shop.orders", "shop.users"], linger_seconds=0)
    canal = MemoryCanal(batches=1)
    result = dg.materialize(
        [delta_asset(settings, LandedTables(settings.modes, {"shop.orders": None, "shop.users": None}))],
        selection=["delta/shop/shop/orders"],
        resources={"canal_shop": canal, "lake_shop": MemoryLake()},
    )
    assert canal.log == ["claim 1", "ack 1"]
    assert [one.asset_key.path[-1] for one in materialized(result)] == ["orders", "users"]


def test_checks_have_an_event_when_they_change() -> None:
    """Of a run that plans none, as the sensor starts it: each check once at first, then those that turn red, and those
    that turn green again. What stays red as it is has no event."""
    canal, instance = MemoryCanal(batches=1), dg.DagsterInstance.ephemeral()

    def found(lake: MemoryLake, stopped: bool) -> dict[str, bool]:
        result = drain(canal if stopped else MemoryCanal(batches=1), lake, instance=instance, with_checks=False)
        assert result.success
        planned = [e for e in result.all_events if e.event_type_value == "ASSET_CHECK_EVALUATION_PLANNED"]
        assert planned == []
        return verdicts(result)

    assert found(MemoryLake(), stopped=False) == {
        f"{name} {check}": True for name in ("orders", "users") for check in CHECKS
    }
    assert found(MemoryLake(), stopped=False) == {}
    lake = MemoryLake()
    lake.lost = (
        Refusal("shop.users", TableStopped("its rows are lost", place="/lake", hint="Copy."), copy_needed=True),
    )
    assert found(lake, stopped=True) == {"users takes_changes": False}
    assert found(MemoryLake(), stopped=True) == {}
    assert found(MemoryLake(), stopped=False) == {"users takes_changes": True}


def test_a_run_writes_events_of_what_changed_alone() -> None:
    """Of fifty tables that rest there is none: nothing is planned, and no check of them is evaluated. A table whose
    first rows come with a later batch of the same run has its events as the others do, when its batch is done."""
    names = [f"shop.t{number}" for number in range(50)]
    claims: list[list[str]] = []

    def spoil(claim: Claim, batch: BatchResult) -> BatchResult:
        last = instance.get_runs(limit=1)[0].run_id
        events = [one.dagster_event for one in instance.all_logs(last) if one.dagster_event]
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
        shown = [one.asset_check_evaluation_data for one in events if one.event_type == kind]
        claims.append(sorted({one.asset_key.path[-1] for one in shown}))
        return BatchResult(tuple(one for one in batch.applied if claim.batch_id > 1 or one.table == "shop.orders"))

    canal, instance = MemoryCanal(batches=3), dg.DagsterInstance.ephemeral()
    listed = ["shop.orders", "shop.users", *names]
    result = drain(canal, MemoryLake(spoil), listed, instance=instance, with_checks=False)

    assert result.success
    assert claims == [[], ["orders"], ["orders", "users"]]
    assert {one.asset_key.path[-1] for one in materialized(result)} == {"orders", "users"}
    assert set(verdicts(result)) == {f"{name} {check}" for name in ("orders", "users") for check in CHECKS}
    assert not [one for one in result.all_events if "PLANNED" in one.event_type_value]
    assert len(instance.all_logs(result.run_id)) < 40


def test_a_check_turns_green_without_rows_when_its_stop_is_lifted() -> None:
    """Also of a table that rests otherwise: the next run says so."""
    canal, instance = MemoryCanal(), dg.DagsterInstance.ephemeral()
    canal.stop_table("shop.users", reason="paused", hint="Resume it.", position=canal_double.position(0))
    assert verdicts(drain(canal, instance=instance, with_checks=False))["users takes_changes"] is False
    assert verdicts(drain(canal, instance=instance, with_checks=False)) == {}
    canal.stopped.clear()
    assert verdicts(drain(canal, instance=instance, with_checks=False))["users takes_changes"] is True


def test_a_table_has_one_materialization_a_minute() -> None:
    """The first batch has one at once. The others of the minute have one together, at the latest when the run ends,
    also by an error: with the sum of their rows and the place where the first began."""
    each = [one.metadata for one in materialized(drain(MemoryCanal(batches=3)))][::2]
    result = drain(MemoryCanal(batches=3), report_seconds=60)
    assert [one.asset_key.path[-1] for one in materialized(result)] == ["orders", "users"] * 2
    first, rest = [one.metadata for one in materialized(result)][::2]
    assert first["batch_id"].value == 1
    assert "batches" not in first
    assert (rest["batches"].value, rest["first_batch_id"].value, rest["batch_id"].value) == (2, 2, 3)
    assert rest["start_position"] == each[1]["start_position"]
    assert rest["end_position"] == each[2]["end_position"]
    assert rest["rows"].value == each[1]["rows"].value + each[2]["rows"].value

    def breaks(claim: Claim, batch: BatchResult) -> BatchResult:
        if claim.batch_id == 3:
            raise LakeError("Spark is away")
        return batch

    instance = dg.DagsterInstance.ephemeral()
    failed = drain(MemoryCanal(batches=3), MemoryLake(breaks), instance=instance, report_seconds=60)
    written = [one.dagster_event for one in instance.all_logs(failed.run_id) if one.dagster_event]
    told = [one.step_materialization_data.materialization for one in written if one.is_step_materialization]
    assert [one.metadata["batch_id"].value for one in told][:4:2] == [1, 2]


def test_a_table_with_lost_rows_is_stopped_before_its_batch() -> None:
    """Rows that another server lost: the table is stopped, only a copy lifts that, and the other table goes on."""
    canal, lake = MemoryCanal(batches=1), MemoryLake()
    error = TableStopped("its rows are lost", place="/lake", hint="Reload the table.")
    lake.lost = (Refusal("shop.users", error, copy_needed=True),)
    result = drain(canal, lake)
    assert canal.log == ["claim 1", "stop shop.users", "ack 1"]
    assert not verdicts(result)["users takes_changes"]
    assert [m.asset_key.path[-1] for m in materialized(result)] == ["orders"]


def test_a_table_that_the_lake_does_not_have_begins_with_a_snapshot() -> None:
    """Its changes are left out and the batch is acked: the snapshot brings them. The other table takes its own."""
    canal = MemoryCanal(batches=2)
    result = drain(canal, MemoryLake(there=[ORDERS]), snapshot="initial")

    assert result.success
    assert canal.acked == 2
    assert [(one.table, one.owner) for one in canal.snapshots.opened] == [("shop.users", "the first start")]
    assert {one.asset_key.path[-1] for one in materialized(result)} == {"orders"}

"""The events of checks: which are written between two batches, and which wait; over a clock that each event turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest

from cdc_core.contract.claim import Claim
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import LakeError, TableStopped
from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import EffectKind
from cdc_core.schema.table import TableSchema
from orchestration.assets.checks import TAKES_CHANGES
from orchestration.assets.drain import Drain
from orchestration.assets.run import DagsterRun
from orchestration.assets.tally import Tally
from orchestration.assets.verdicts import Verdicts, evaluation_of, key_of
from orchestration.names import Names
from orchestration.settings import Limits
from spark_jobs.apply.checks import ROWS_ADD_UP, Verdict
from spark_jobs.apply.result import BatchResult, Followed, Refusal, TableResult
from spark_jobs.lake.doubt import Doubt
from tests.support.canal_double import USERS, MemoryCanal, MemoryLake, position
from tests.support.doubles import Clock

BATCH, EVENT = 2.0, 0.03  # seconds
STOPPED, KEY = "shop.t0", "key_unique"


@dataclass
class Context:
    """In the place of a run's context: its events take time, and Dagster knows nothing of earlier runs."""

    clock: Clock
    events: list[tuple[float, Any]] = field(default_factory=list)

    def log_event(self, event: Any) -> None:
        self.clock.turn(EVENT)
        self.events.append((self.clock.now, event))

    def drain(self, canal: MemoryCanal, lake: MemoryLake, tables: Iterable[TableSchema], **limits: Any) -> Drain:
        given: dict[str, Any] = {"max_seconds": 1e6, "max_batches": 1_000_000, "linger_seconds": 0}
        says = SimpleNamespace(info=print, warning=print, error=print)
        run = SimpleNamespace(run_id="r", tags={})
        context = SimpleNamespace(run=run, instance=instance(), log=says, log_event=self.log_event)
        return Drain(
            DagsterRun(cast("dg.OpExecutionContext", context), "cdc_shop"),
            Names("shop"),
            [one.name for one in tables],
            Limits(**given | limits),
            canal,
            cast("Any", lake),
            clock=self.clock,
            sleep=self.clock.turn,
        )

    def when(self, table: str, check: str, *, passed: bool) -> list[float]:
        """Returns when a check had such an event."""
        key = Names("shop").delta(table)
        found = [(at, one) for at, one in self.events if isinstance(one, dg.AssetCheckEvaluation)]
        return [at for at, one in found if (one.asset_key, one.check_name, one.passed) == (key, check, passed)]

    @property
    def firsts(self) -> int:
        return sum(isinstance(one, dg.AssetCheckEvaluation) and one.passed for _, one in self.events)


def instance(known: Iterable[dg.AssetCheckResult] = ()) -> dg.DagsterInstance:
    """Returns one that has events of earlier runs of these checks alone."""
    records = {key_of(one): _record(one) for one in known}
    storage = SimpleNamespace(get_latest_asset_check_execution_by_key=lambda _: records)
    none: dict[str, Callable[..., Any]] = {"add_run_tags": lambda *_: None, "get_asset_records": lambda _: []}
    nothing = SimpleNamespace(event_log_storage=storage, get_runs_count=lambda _: 0, **none)
    return cast("dg.DagsterInstance", nothing)


def lake_of(clock: Clock, then: Callable[[Claim], None] = lambda _: None) -> MemoryLake:
    """Returns a lake whose batches take `BATCH` seconds."""

    def takes(claim: Claim, batch: BatchResult) -> BatchResult:
        clock.turn(BATCH)
        then(claim)
        return batch

    return MemoryLake(takes)


def tables(number: int) -> list[TableSchema]:
    return [replace(USERS, table=f"t{n}") for n in range(number)]


def stop(canal: MemoryCanal, table: str = STOPPED, reason: str = "paused") -> None:
    canal.stopped.append(StoppedTable(table, reason, "Resume it.", position(0)))


def result(name: str, *, passed: bool = True) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=passed, asset_key=dg.AssetKey(name), check_name="x")


@pytest.mark.parametrize(("report_seconds", "number"), [(0, 20), (60, 100), (900, 100)])
def test_a_stop_is_red_when_its_batch_is_done(report_seconds: float, number: int) -> None:
    """However many materializations and first verdicts wait; and green when its stop is lifted."""
    clock, known = Clock(), tables(number)
    context, canal, ends = Context(clock), MemoryCanal(40, known), list[float]()

    def then(claim: Claim) -> None:
        ends.append(clock.now)
        if claim.batch_id == 20:
            stop(canal)
        if claim.batch_id == 30:
            canal.stopped.clear()

    list(context.drain(canal, lake_of(clock, then), known, report_seconds=report_seconds).run())

    (red,) = context.when(STOPPED, TAKES_CHANGES, passed=False)
    assert ends[20] < red <= ends[20] + 2 * EVENT
    green = context.when(STOPPED, TAKES_CHANGES, passed=True)
    assert ends[30] < green[-1] <= ends[30] + 2 * EVENT


def test_first_verdicts_and_materializations_share_the_time() -> None:
    """A tenth of a batch's time; neither waits for the other."""
    clock, known = Clock(), tables(20)
    context, ends = Context(clock), [Clock().now]
    lake = lake_of(clock, lambda _: ends.append(clock.now))

    list(context.drain(MemoryCanal(5, known), lake, known, report_seconds=0).run())

    for before, after in itertools.pairwise(ends):
        assert after - before <= BATCH + 0.2 + 2 * EVENT
    kinds = [type(one) for at, one in context.events if at < ends[2]]
    assert kinds.count(dg.AssetCheckEvaluation) > 2
    assert kinds.count(dg.AssetMaterialization) > 2


def test_what_had_no_time_is_written_when_no_rows_wait() -> None:
    """All of it, before the run waits for rows; a claim is tried every second meanwhile."""
    clock, known, waits = Clock(), tables(100), list[float]()
    context, events = Context(clock), list[int]()

    class Canal(MemoryCanal):
        def get_without_ack(self, batch_size: int, *, timeout_seconds: float = 0.0, **named: Any) -> Claim | None:
            claim = super().get_without_ack(batch_size, timeout_seconds=timeout_seconds, **named)
            if claim is None:
                waits.append(clock.now)
                if timeout_seconds:
                    events.append(len(context.events))
                clock.turn(timeout_seconds)
            return claim

    canal = Canal(1, known)
    list(context.drain(canal, lake_of(clock), known, freshness="asap", max_seconds=60).run())

    assert events[0] == 100 + 4 * 100
    asked = [later - earlier for earlier, later in itertools.pairwise(waits)]
    assert max(asked) <= 3.0
    assert context.events[-1][0] < waits[0] + 500 * EVENT + 1


def test_what_had_no_time_is_written_when_the_run_ends_by_an_error() -> None:
    """Verdicts too, and the stop of a batch that was given back."""
    clock, known = Clock(), tables(20)
    context, canal = Context(clock), MemoryCanal(3, known)

    def then(claim: Claim) -> None:
        if claim.batch_id == 2:
            raise LakeError("Spark is away", place="spark", hint="Start it.")

    lake = lake_of(clock, then)
    drain = context.drain(canal, lake, known)
    with pytest.raises(LakeError):
        list(drain.run())

    assert context.firsts == 4 * 20


def test_a_stop_of_a_batch_that_was_given_back_is_red() -> None:
    """The service has noted it: the run that ends by an error shows it."""
    clock, known = Clock(), tables(2)

    def then(_: Claim) -> None:
        raise LakeError("Spark is away", place="spark", hint="Start it.")

    context, lake = Context(clock), lake_of(clock, then)
    lake.lost = (Refusal(STOPPED, TableStopped("its rows are lost", place="/lake", hint="Copy it.")),)
    with pytest.raises(LakeError):
        list(context.drain(MemoryCanal(1, known), lake, known).run())

    assert len(context.when(STOPPED, TAKES_CHANGES, passed=False)) == 1


def test_what_still_fails_has_an_event_in_each_run_that_materializes_its_table() -> None:
    """Once: Dagster shows no check of an earlier run with a newer materialization. What passes needs none."""
    written = list[str]()
    verdicts = Verdicts(
        instance(known=[result("a", passed=False), result("b", passed=False), result("c")]), _into(written)
    )
    found = [result("a", passed=False), result("b", passed=False), result("c")]
    verdicts.report(found)
    assert written == []
    for _ in range(2):
        verdicts.report(found, materialized=[dg.AssetKey("a"), dg.AssetKey("c")])
        assert written == ["a"]


def test_a_smaller_batch_does_not_forget_what_waits() -> None:
    """Verdicts that had no time are those of any batch; each is written once, the longest waiting first."""
    clock, written = Clock(), list[str]()

    def write(event: dg.AssetCheckEvaluation) -> None:
        written.append(event.asset_key.to_user_string())
        clock.turn(0.2)

    verdicts = Verdicts(instance(), write, clock=clock)
    verdicts.report([result(name) for name in "abcdef"], seconds=0.3)
    assert (written, verdicts.behind) == (list("ab"), True)
    verdicts.report([result("a")], seconds=0.0)
    assert (written, verdicts.behind) == (list("abc"), True)
    verdicts.report([result("g")], seconds=0.3)
    assert (written, verdicts.behind) == (list("abcde"), True)
    verdicts.write_waiting(10)
    assert (written, verdicts.behind) == (list("abcdefg"), False)


def test_red_ones_have_no_budget() -> None:
    """Those that fail come first, then those that pass again. One that waited, and fails now, has that event alone."""
    clock, written = Clock(), list[tuple[str, bool]]()

    def write(event: dg.AssetCheckEvaluation) -> None:
        written.append((event.asset_key.to_user_string(), event.passed))
        clock.turn(0.2)

    verdicts = Verdicts(instance(), write, clock=clock)
    verdicts.report([result("d"), result("a"), result("b", passed=False)], seconds=0.1)
    assert written == [("b", False), ("d", True)]
    verdicts.report([result("b"), result("a", passed=False), result("c", passed=False)], seconds=0.1)
    assert written[2:] == [("a", False), ("c", False), ("b", True)]
    assert not verdicts.behind


def test_a_stop_that_another_made_is_red_while_the_run_stays() -> None:
    """An operator, or a run that merges logs; also when no rows come. So is its end."""
    clock, known = Clock(), tables(2)
    context = Context(clock)
    at = Clock().now

    class Canal(MemoryCanal):
        def get_without_ack(self, batch_size: int, *, timeout_seconds: float = 0.0, **named: Any) -> Claim | None:
            claim = super().get_without_ack(batch_size, timeout_seconds=timeout_seconds, **named)
            clock.turn(0 if claim else timeout_seconds)
            if at + 100 <= clock.now < at + 200 and not self.stopped:
                stop(self)
            if clock.now >= at + 200:
                self.stopped.clear()
            return claim

    list(context.drain(Canal(1, known), lake_of(clock), known, freshness="asap", max_seconds=300).run())

    (red,) = context.when(STOPPED, TAKES_CHANGES, passed=False)
    assert at + 100 < red < at + 105
    assert at + 200 < context.when(STOPPED, TAKES_CHANGES, passed=True)[-1] < at + 205


def test_a_reload_makes_every_check_of_a_table_green_within_the_run() -> None:
    """A blocking check fails as long as its table is stopped, and rows are in doubt until the table is reloaded."""
    clock, known = Clock(), tables(2)
    context, canal = Context(clock), MemoryCanal(6, known)

    def spoiled(one: TableResult, **commit: int) -> TableResult:
        assert one.commit
        return replace(one, commit=replace(one.commit, **commit))

    def spoil(claim: Claim, batch: BatchResult) -> BatchResult:
        clock.turn(BATCH)
        first, *rest = batch.applied
        if claim.batch_id == 1:
            return replace(batch, applied=(spoiled(first, inserted=9, updated=1), *rest))
        if claim.batch_id == 2:
            return replace(batch, applied=(spoiled(first, inserted=11), *rest))
        if claim.batch_id == 4:
            canal.stopped.clear()
            lake.known_doubts.clear()
        return batch

    lake = MemoryLake(spoil)
    list(context.drain(canal, lake, known).run())

    for check in (KEY, ROWS_ADD_UP, TAKES_CHANGES):
        assert context.when(STOPPED, check, passed=False)
        last = [one.passed for _, one in context.events if _is(one, check)][-1]
        assert last, check
    assert lake.known_doubts == {}


def test_a_table_that_takes_a_name_has_no_warning_of_the_one_before() -> None:
    """The doubt goes with the rows to another name."""
    tally, doubt = Tally(Names("shop"), ["shop.a", "shop.b"], doubts={"shop.a": Doubt(met=1)}), Doubt(met=1)
    tally.add(BatchResult(), [Verdict("shop.a", ROWS_ADD_UP, False, doubt.text, {}, warns=True)], {})
    at = EntryPosition("bin.000001", 5)
    moves = (("shop.b", "shop.a"), ("shop.a", ""))
    tally.add(BatchResult(followed=tuple(Followed(to, EffectKind.RENAME, "", at, "", of) for to, of in moves)), (), {})
    passed = [one.passed for one in tally.results() if one.check_name == ROWS_ADD_UP]
    assert passed == [True, False]


def _record(one: dg.AssetCheckResult) -> SimpleNamespace:
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    event = SimpleNamespace(event_type=kind, asset_check_evaluation_data=evaluation_of(one))
    return SimpleNamespace(event=SimpleNamespace(dagster_event=event))


def _into(written: list[str]) -> Callable[[dg.AssetCheckEvaluation], None]:
    return lambda event: written.append(event.asset_key.to_user_string())


def _is(event: Any, check: str) -> bool:
    return (
        isinstance(event, dg.AssetCheckEvaluation)
        and event.check_name == check
        and event.asset_key == Names("shop").delta(STOPPED)
    )

"""The checks of one destination.

Three gate the ack inside the drain: `key_unique`, `position_monotone`, `rows_add_up`, per table. A fourth,
`takes_changes`, is red as long as a table is stopped, while the others go on. A run yields every declared check
exactly once, also when the store was empty, with the number of batches that passed: a materialization is the event of
a batch that passed, and Dagster never prunes events.
`lag_seconds`, on the store, is evaluated by the sensor when it changes, and by hand.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from cdc_core.errors import SluiceError
from cdc_core.session.claim import Claim
from orchestration.metadata import failure, of_error
from orchestration.names import Names
from orchestration.resources import CanalResource
from orchestration.settings import Settings
from spark_jobs.checks import TableResult, Verdict, key_unique, position_monotone, rows_add_up

TAKES_CHANGES, LAG = "takes_changes", "lag_seconds"
_GATES: Mapping[str, tuple[str, Callable[[Claim, TableResult], Verdict]]] = {
    "key_unique": ("Each changed key is there once.", lambda _claim, result: key_unique([result])),
    "position_monotone": ("The batch goes forward.", lambda claim, result: position_monotone(claim, [result])),
    "rows_add_up": ("The lake's counts agree with the source's.", lambda _claim, result: rows_add_up([result])),
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """One check's verdict on one table of a batch."""

    table: str
    check: str
    verdict: Verdict


@dataclass(slots=True)
class Tally:
    """What the checks of a run came to, per declared table: how many batches passed."""

    names: Names
    tables: Sequence[str]
    batches: int = 0
    passed: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, judgements: Sequence[Judgement]) -> None:
        self.batches += 1
        for one in judgements:
            self.passed[one.table, one.check] = self.passed.get((one.table, one.check), 0) + 1

    def results(self, stopped: Mapping[str, Mapping[str, Any]]) -> Iterator[dg.AssetCheckResult]:
        """Every declared check, once."""
        for table in self.tables:
            key = self.names.delta(table)
            for check in _GATES:
                batches = self.passed.get((table, check), 0)
                said = f"{batches} batches passed" if batches else "no batch had rows of this table"
                yield dg.AssetCheckResult(
                    passed=True, asset_key=key, check_name=check, description=said, metadata={"batches": batches}
                )
            yield _takes_changes(key, stopped.get(table))


def specs(settings: Settings, tables: Sequence[str]) -> list[dg.AssetCheckSpec]:
    """The checks that a drain declares."""
    told = {name: text for name, (text, _) in _GATES.items()}
    told[TAKES_CHANGES] = "The table is not stopped by a change that it cannot take."
    return [
        dg.AssetCheckSpec(name, asset=settings.names.delta(table), description=text)
        for table in tables
        for name, text in told.items()
    ]


def judge(claim: Claim, results: Sequence[TableResult]) -> list[Judgement]:
    """All gates over all tables of a batch that took it."""
    taken = [result for result in results if result.stop is None]
    return [Judgement(r.table, name, verdict(claim, r)) for r in taken for name, (_, verdict) in _GATES.items()]


def evaluation(names: Names, judgement: Judgement, claim: Claim) -> dg.AssetCheckEvaluation:
    """A verdict as an event of its batch."""
    return dg.AssetCheckEvaluation(
        asset_key=names.delta(judgement.table),
        check_name=judgement.check,
        passed=judgement.verdict.passed,
        description=judgement.verdict.text,
        metadata={"batch_id": claim.batch_id, **judgement.verdict.metadata},
    )


def red(names: Names, judgement: Judgement, claim: Claim) -> dg.AssetCheckResult:
    """A failed verdict as the run's result for that check."""
    return dg.AssetCheckResult(
        passed=False,
        asset_key=names.delta(judgement.table),
        check_name=judgement.check,
        description=judgement.verdict.text,
        metadata={"batch_id": claim.batch_id, **judgement.verdict.metadata},
    )


def lag_check(settings: Settings) -> dg.AssetChecksDefinition:
    """Asks the service how far behind the store is."""
    names = settings.names

    @dg.asset_check(
        asset=names.store,
        name=LAG,
        description=f"The newest row waits no longer than {settings.lag_warning_seconds:g} seconds.",
        required_resource_keys={names.canal},
    )
    def lag(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        canal: CanalResource = getattr(context.resources, names.canal)
        try:
            with canal.connect() as connector:
                status = connector.status()
        except SluiceError as error:
            raise failure(error) from error
        found = lag_evaluation(settings, status)
        return dg.AssetCheckResult(
            passed=found.passed, severity=found.severity, description=found.description, metadata=dict(found.metadata)
        )

    return lag


def lag_evaluation(settings: Settings, status: Mapping[str, Any]) -> dg.AssetCheckEvaluation:
    """Red when the destination has an error, yellow when it lags behind."""
    seconds = float(status.get("lag_seconds") or 0.0)
    error = status.get("error")
    failed = (
        SluiceError(error["message"], place=error.get("place") or "", hint=error.get("hint") or "") if error else None
    )
    return dg.AssetCheckEvaluation(
        asset_key=settings.names.store,
        check_name=LAG,
        passed=failed is None and seconds <= settings.lag_warning_seconds,
        severity=dg.AssetCheckSeverity.ERROR if failed else dg.AssetCheckSeverity.WARN,
        description=str(failed) if failed else f"{seconds:.0f} s behind the source",
        metadata={"lag_seconds": seconds, **(of_error(failed) if failed else {})},
    )


def _takes_changes(key: dg.AssetKey, stop: Mapping[str, Any] | None) -> dg.AssetCheckResult:
    if stop is None:
        return dg.AssetCheckResult(passed=True, asset_key=key, check_name=TAKES_CHANGES)
    return dg.AssetCheckResult(
        passed=False,
        asset_key=key,
        check_name=TAKES_CHANGES,
        description=f"{stop['reason']}. {stop['hint']}",
        metadata={"reason": stop["reason"], "hint": stop["hint"], "position": stop["position"]},
    )

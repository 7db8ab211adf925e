"""The checks of a destination's tables.

The checks of `spark_jobs.apply.checks` gate each batch. A blocking one stops its table; rows that were not there as the
source's changes presume are a warning. `takes_changes` is red as long as a table is stopped, while the others go on.
A run in which checks were selected yields each of them exactly once, also when the store was empty, with the number of
batches that passed. Otherwise a check has an event when its verdict changes, as soon as the batch is done.

What a `defs.yaml` expects of a table are checks too, with the verdict of the last batch that had rows of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

from cdc_core.contract.claim import Claim
from cdc_core.contract.stopped_table import StoppedTable
from orchestration.assets.landed import ROWS_LANDED, ROWS_LANDED_TEXT
from orchestration.assets.schema_changes import schema_specs
from orchestration.names import Names
from orchestration.settings import Settings
from spark_jobs.apply.checks import CHECKS, ROWS_ADD_UP, Verdict
from spark_jobs.expectations.expectation import Expectation
from spark_jobs.lake.doubt import Doubt

TAKES_CHANGES = "takes_changes"
_TAKES = "The table is not stopped by a change that it cannot take."


def expected_result(
    key: dg.AssetKey, table: str, expectation: Expectation, found: Verdict | None
) -> dg.AssetCheckResult:
    """The result of an expectation by the last verdict, None for a table without rows."""
    return dg.AssetCheckResult(
        passed=found is None or found.passed,
        asset_key=key,
        check_name=expectation.name,
        severity=severity(found),
        description=found.text if found else "no batch had rows of this table",
        metadata={"sql": dg.MetadataValue.text(expectation.sql(table)), **(found.figures if found else {})},
    )


def quarantine_over(key: dg.AssetKey, one: Expectation) -> dg.AssetCheckResult:
    text = "no row waits, and the table is not blocked"
    return dg.AssetCheckResult(passed=True, asset_key=key, check_name=one.name, description=text)


def expected_specs(
    settings: Settings, tables: Sequence[str], expected: Mapping[str, Sequence[Expectation]]
) -> list[dg.AssetCheckSpec]:
    """The checks of what is expected of the tables."""
    return [
        dg.AssetCheckSpec(
            one.name,
            asset=settings.names.delta(table),
            description=one.text,
            metadata={"severity": one.severity.value, "sql": dg.MetadataValue.text(one.sql(table))},
        )
        for table in tables
        for one in expected.get(table, ())
    ]


def check_specs(settings: Settings, tables: Sequence[str], logs: Sequence[str] = ()) -> list[dg.AssetCheckSpec]:
    """The checks of the tables and of change logs, as a drain declares them."""
    descriptions = {check.name: check.description for check in CHECKS}
    descriptions[TAKES_CHANGES] = _TAKES
    landing = {ROWS_LANDED: ROWS_LANDED_TEXT, TAKES_CHANGES: _TAKES}
    return (
        [
            dg.AssetCheckSpec(name, asset=settings.names.delta(table), description=text)
            for table in tables
            for name, text in descriptions.items()
        ]
        + [
            dg.AssetCheckSpec(name, asset=settings.names.log(table), description=text)
            for table in logs
            for name, text in landing.items()
        ]
        + (schema_specs(map(settings.names.delta, tables)) if settings.schema_change == "warn" else [])
    )


def evaluation(names: Names, verdict: Verdict, claim: Claim) -> dg.AssetCheckEvaluation:
    """A verdict as an event of its batch."""
    return dg.AssetCheckEvaluation(
        asset_key=names.delta(verdict.table),
        check_name=verdict.check,
        passed=verdict.passed,
        severity=severity(verdict),
        description=verdict.text,
        metadata={"batch_id": claim.batch_id, **verdict.figures},
    )


def doubtful(key: dg.AssetKey, doubt: Doubt, hint: str) -> dg.AssetCheckResult:
    """Stays until the table is reloaded: other rows may be wrong that no change has met."""
    keys = f", such as {'; '.join(doubt.keys[:3])}" if doubt.keys else ""
    return dg.AssetCheckResult(
        passed=False,
        asset_key=key,
        check_name=ROWS_ADD_UP,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{doubt.text}{keys}. These rows are right now; others may be missing or stale. {hint}",
        metadata={"inserts_met": doubt.met, "changes_missed": doubt.missed, "keys": list(doubt.keys), "hint": hint},
    )


def severity(verdict: Verdict | None) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if verdict and verdict.warns else dg.AssetCheckSeverity.ERROR


def takes_changes(key: dg.AssetKey, stop: StoppedTable | None, copy: str) -> dg.AssetCheckResult:
    if stop is None:
        return dg.AssetCheckResult(passed=True, asset_key=key, check_name=TAKES_CHANGES)
    return dg.AssetCheckResult(
        passed=False,
        asset_key=key,
        check_name=TAKES_CHANGES,
        description=f"{stop.reason}. {stop.hint}",
        metadata={
            "kind": stop.kind,
            "reason": stop.reason,
            "hint": stop.hint,
            "position": str(stop.position or ""),
            "copy": copy,
        },
    )

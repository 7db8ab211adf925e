"""The check `verified` of each table, which compares its rows and definition with the source's, and its schedule.
A history has it too: its current rows are compared with its table's.

It repairs nothing: a table that differs says how many rows do, and what to run.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from cdc_core.errors import SluiceError
from cdc_core.schema.names import split_name
from orchestration import processes
from orchestration.failures import failure
from orchestration.jobs.by_hand import LONG_RUN, access_of
from orchestration.jobs.clock import schedule_of
from orchestration.jobs.history import known
from orchestration.settings import Settings
from orchestration.verbs.verify import comparison, facts, text
from spark_jobs.landing.modes import Mode
from spark_jobs.verify.comparer import compared
from spark_jobs.verify.history import histories_compared
from spark_jobs.verify.verified import Verified

VERIFIED = "verified"
_TABLE = "Rows and definition equal the source's at the place that the lake has reached."
_HISTORY = "The current rows are those of the table, when both have the same changes."
_NO_HISTORY = "there is no history yet: it begins with the first changes that land"
_TIMEOUT = 600.0  # seconds for the lake to catch up, for each table


def audit_checks(settings: Settings, tables: Sequence[str]) -> dg.AssetChecksDefinition:
    """The check of every table, in one step; it can be run for some of them."""
    names = settings.names
    known = {names.delta(table): table for table in tables}
    kept = {names.history(table): table for table in tables if settings.modes.of(table) is Mode.HISTORY}

    @dg.multi_asset_check(
        name=f"audit_{names.safe}_op",
        specs=[
            *(dg.AssetCheckSpec(VERIFIED, asset=key, description=_TABLE) for key in known),
            *(dg.AssetCheckSpec(VERIFIED, asset=key, description=_HISTORY) for key in kept),
        ],
        can_subset=True,
        required_resource_keys={names.canal, names.lake},
    )
    def audit(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        processes.note(context.op_execution_context)
        wanted = {key.asset_key for key in context.selected_asset_check_keys}
        rows = [table for key, table in known.items() if key in wanted]
        versions = [table for key, table in kept.items() if key in wanted]
        try:
            at = access_of(context.resources, settings, context.run.run_id)
            with at.connect() as connector:
                comparer = comparison(at, connector, _TIMEOUT)
                for found in compared(comparer, map(split_name, rows)):
                    yield _result(settings, found)
                for table in versions:
                    yield _of_history(settings, table, next(histories_compared(comparer, [table]), None))
        except SluiceError as error:
            raise failure(error) from error

    return audit


def audit_job(settings: Settings, parts: dg.Definitions, checks: dg.AssetChecksDefinition) -> dg.JobDefinition:
    """Return a job of the checks alone, which materializes nothing. It knows `parts`, its destination: a job that
    Dagster resolves among all destinations of the code location describes the resources of all."""
    name = f"audit_{settings.names.safe}"
    job = dg.define_asset_job(
        name,
        selection=dg.AssetSelection.checks(checks),
        executor_def=dg.in_process_executor,
        tags={"cdc/audit": settings.destination, **LONG_RUN, **settings.names.job_tags},
        description=f"Compare tables of {settings.destination} with the source, while the stream goes on.",
    )
    return dg.Definitions.merge(parts, dg.Definitions(jobs=[job])).resolve_job_def(name)


def audit_schedule(settings: Settings, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Return the schedule that `audit` in defs.yaml names."""
    return schedule_of(f"{job.name}_schedule", job, settings.audit or "")


def _result(settings: Settings, found: Verified) -> dg.AssetCheckResult:
    """Red when rows or the definition differ, yellow when the table could not be compared."""
    metadata = known(facts(found))
    if found.remedy:
        metadata["job"] = f"verify_{settings.names.safe}" if found.repairable else f"snapshot_{settings.names.safe}"
    return _shown(settings.names.delta(found.table), found, f"{text(found)}. {found.remedy}".strip(), metadata)


def _of_history(settings: Settings, table: str, found: Verified | None) -> dg.AssetCheckResult:
    """Red when current rows differ, yellow when the history could not be compared or is not there yet."""
    key = settings.names.history(table)
    if found is None:
        return dg.AssetCheckResult(
            passed=True,
            asset_key=key,
            check_name=VERIFIED,
            severity=dg.AssetCheckSeverity.WARN,
            description=_NO_HISTORY,
        )
    words = f"{text(found)}. {found.remedy}".replace("at the source", "in the table").strip()
    return _shown(key, found, words, known(facts(found)))


def _shown(key: dg.AssetKey, found: Verified, words: str, metadata: dict[str, Any]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=not found.differences,
        asset_key=key,
        check_name=VERIFIED,
        severity=dg.AssetCheckSeverity.ERROR if found.comparison else dg.AssetCheckSeverity.WARN,
        description=words,
        metadata=metadata,
    )

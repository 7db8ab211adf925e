"""The job that brings the rows of tables right that differ from the source's, while the stream goes on.

It may be killed and run again: what it has repaired does not differ any more.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
from pydantic import Field

from cdc_core.errors import LakeError, SluiceError
from orchestration import processes
from orchestration.failures import failure
from orchestration.jobs.comparing import comparison_facts, comparison_text, opened_beside
from orchestration.jobs.copying import LONG_RUN, named
from orchestration.jobs.order import Order, order_facts, traced
from orchestration.resources import LakeResource
from orchestration.settings import Settings
from spark_jobs.session import Sessions
from spark_jobs.verify.beside import TableComparer, compared
from spark_jobs.verify.repair import RowRepair

_ACTION = "repair"


class Repair(Order):
    """Which tables to compare, and to bring right where they differ."""

    tables: list[str] = Field([], description="database.table, one or more; empty: all that are captured.")
    timeout_seconds: float = Field(600, gt=0, description="How long to wait for the lake, for each table.")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a table. `rows`: those that were repaired."""

    done: bool
    rows: int
    text: str


def repair_job(settings: Settings) -> dg.JobDefinition:
    """It does not share the drain's pool: it holds a claim for a moment, between two batches."""
    names = settings.names

    @dg.op(
        name=f"repair_{names.safe}_op",
        pool=f"repair_{names.safe}",
        required_resource_keys={names.canal, names.lake},
    )
    def repair_tables(context: dg.OpExecutionContext, config: Repair) -> None:
        processes.note(context)
        lake: LakeResource = getattr(context.resources, names.lake)
        try:
            order_facts(context, _ACTION, config.reason)
            for table in config.tables:
                named(table)
            with (
                opened_beside(context.resources, settings, config.timeout_seconds) as beside,
                Sessions(lake.remote, lake.token or "", lake.root) as sessions,
            ):
                mending = replace(beside, settle=RowRepair(sessions, context.run_id).of)
                tables = dict.fromkeys(config.tables or [one.name for one in beside.connector.tables()])
                outcomes = {table: _one(context, settings, mending, table, config.reason) for table in tables}
        except SluiceError as error:
            raise failure(error) from error
        _sum_up(context, outcomes)

    @dg.job(
        name=f"repair_{names.safe}",
        config=Repair.form(f"repair_{names.safe}_op"),
        tags={"cdc/repair": settings.destination, **LONG_RUN, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"Compare tables of {settings.destination} with the source, and bring the rows right that differ, "
        "while the stream goes on. A table without a key is compared alone, and its history says what to do.",
    )
    def repair() -> None:
        repair_tables()

    return repair


def _one(context: dg.OpExecutionContext, settings: Settings, beside: TableComparer, table: str, reason: str) -> Outcome:
    """Repairs a table. Its failure is told in its history and in the log, and does not end the run."""
    try:
        with traced(context, settings.names.delta(table), _ACTION, reason) as findings:
            (found,) = compared(beside, [named(table)])
            findings |= comparison_facts(found)
            if found.differences:
                hint = found.remedy or "Mend what the message says, then run the job again."
                raise LakeError(comparison_text(found), place=table, hint=hint)
    except dg.Failure as error:
        context.log.error(f"{table} is not right: {error.description}")
        return Outcome(False, 0, f"failed: {error.description}")
    except Exception as error:  # whatever it is, the next table may do well
        context.log.exception(f"{table} was not repaired")
        return Outcome(False, 0, f"failed: {type(error).__name__}: {error}"[:1000])
    context.log.info(f"{table}: {comparison_text(found)}")
    return Outcome(True, found.repaired, comparison_text(found))


def _sum_up(context: dg.OpExecutionContext, outcomes: dict[str, Outcome]) -> None:
    """The summary as the run's metadata. Raises Failure when a table is not right."""
    failed = [table for table, outcome in outcomes.items() if not outcome.done]
    told = {table: outcome.text for table, outcome in outcomes.items()}
    summary: dict[str, Any] = {"rows_repaired": sum(one.rows for one in outcomes.values()), "tables": told}
    if failed:
        text = f"{len(failed)} of {len(outcomes)} tables are not right: {', '.join(failed)}"
        raise dg.Failure(text, metadata=summary | {"failed": len(failed)}, allow_retries=False)
    context.add_output_metadata(summary)

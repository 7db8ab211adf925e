"""The job that approves or rejects a DDL statement that waits, where a table's policy is `ask`."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from enum import Enum

import dagster as dg
from pydantic import Field

from orchestration import processes
from orchestration.jobs.copying import LONG_RUN, copy_facts, make_anew, named_asset, opened_repair
from orchestration.jobs.order import Order, traced
from orchestration.proposals import check_waiting, proposals, reject
from orchestration.resources import CanalResource
from orchestration.settings import Settings


class Decision(Enum):
    """What becomes of the statement."""

    approve = "approve"
    reject = "reject"


class Ddl(Order):
    """Which statement, by its table, and what becomes of it."""

    table: str = Field(description="database.table, as the stop names it.")
    decision: Decision = Field(description="approve: the table is reloaded; reject: it stays as it was, and stopped.")


def ddl_job(settings: Settings) -> dg.JobDefinition:
    """Decides on one table's waiting statement. What was decided is in the history of the table's asset."""
    names = settings.names

    @dg.op(name=f"ddl_{names.safe}_op", pool=names.asset, required_resource_keys={names.canal, names.lake})
    def decide(context: dg.OpExecutionContext, config: Ddl) -> None:
        canal: CanalResource = getattr(context.resources, names.canal)
        processes.note(context)
        key, copied = named_asset(settings, config.table), None
        with traced(context, key, config.decision.value, config.reason) as found, canal.connect() as connector:
            stop = check_waiting(connector, [config.table])[config.table]
            (proposal,) = proposals([stop])
            found["ddl_statements"] = proposal.statement
            if config.decision is Decision.reject:
                reject(connector, stop, config.reason)
            else:
                with opened_repair(context, settings, connector) as repair:
                    copied = make_anew(context, repair, config.table)
        if copied is not None:
            context.log_event(dg.AssetMaterialization(key, metadata=copy_facts(copied)))
        context.log.info(f"{config.table}: {config.decision.value}: {proposal.statement}")

    @dg.job(
        name=f"ddl_{names.safe}",
        tags={"cdc/ddl": settings.destination, **LONG_RUN, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"Approve or reject a DDL statement of {settings.destination} that waits (policy `ask`). Approved, "
        "the table is reloaded with the source's present columns and rows; rejected, it stays as it was, and stopped.",
    )
    def ddl() -> None:
        decide()

    return ddl

"""The job that reloads tables from the source, one after the other.

It may be killed and run again: a table is replaced in one commit, which is there or not, and a run begins with the
first of its tables.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from cdc_core.errors import ConfigError, SluiceError
from orchestration import processes
from orchestration.failures import failure
from orchestration.jobs.copying import LONG_RUN, copy_facts, make_anew, named, opened_repair
from orchestration.jobs.order import Order, order_facts, traced
from orchestration.resources import CanalResource
from orchestration.settings import Settings
from spark_jobs.copy.repair import Repair

_ACTION = "rematerialize"


class Rematerialize(Order):
    """Which tables to make anew."""

    tables: list[str] = Field(description="The tables, each as database.table: [shop.orders, shop.users].")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a table, for people."""

    done: bool
    text: str


def rematerialize_job(settings: Settings) -> dg.JobDefinition:
    """Reloads tables and lifts their stops. It shares the drain's pool, so the two take turns."""
    names = settings.names

    @dg.op(name=f"rematerialize_{names.safe}_op", pool=names.asset, required_resource_keys={names.canal, names.lake})
    def rematerialize_tables(context: dg.OpExecutionContext, config: Rematerialize) -> None:
        canal: CanalResource = getattr(context.resources, names.canal)
        processes.note(context)
        try:
            tables = _chosen(config.tables)
            facts = order_facts(context, _ACTION, config.reason)
            with canal.connect() as connector, opened_repair(context, settings, connector) as repair:
                outcomes = {table: _one(context, settings, repair, table, facts) for table in tables}
        except SluiceError as error:
            raise failure(error) from error
        _sum_up(context, outcomes)

    @dg.job(
        name=f"rematerialize_{names.safe}",
        config=Rematerialize.form(f"rematerialize_{names.safe}_op"),
        tags={"cdc/rematerialize": settings.destination, **LONG_RUN, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"Make tables of {settings.destination} anew from the source, each in one commit, and lift their "
        "stops. The job takes turns with the drain. One that fails does not stop the others.",
    )
    def rematerialize() -> None:
        rematerialize_tables()

    return rematerialize


def _chosen(tables: list[str]) -> list[str]:
    """Each once, in order. Raises ConfigError for none, and for a name that is none, before anything is done."""
    if not tables:
        raise ConfigError("no table is named", place="ops.config.tables", hint="Name each as database.table.")
    for table in tables:
        named(table)
    return list(dict.fromkeys(tables))


def _one(
    context: dg.OpExecutionContext, settings: Settings, repair: Repair, table: str, facts: dict[str, Any]
) -> Outcome:
    """Reloads a table. Its failure is told in its history and in the log, and does not end the run."""
    key = settings.names.delta(table)
    try:
        with traced(context, key, _ACTION, facts["reason"]):
            found = make_anew(context, repair, table)
    except dg.Failure as error:
        context.log.error(f"{table} was not reloaded: {error.description}")
        return Outcome(False, f"failed: {error.description}")
    except Exception as error:  # whatever it is, the next table may do well
        context.log.exception(f"{table} was not reloaded")
        return Outcome(False, f"failed: {type(error).__name__}: {error}"[:1000])
    context.log_event(dg.AssetMaterialization(key, metadata=facts | copy_facts(found)))
    return Outcome(True, f"{found.rows} rows as of {found.place.low}")


def _sum_up(context: dg.OpExecutionContext, outcomes: dict[str, Outcome]) -> None:
    """The summary as the run's metadata. Raises Failure when a table failed."""
    failed = [table for table, outcome in outcomes.items() if not outcome.done]
    told = {table: outcome.text for table, outcome in outcomes.items()}
    summary: dict[str, Any] = {"made_anew": len(outcomes) - len(failed), "failed": len(failed), "tables": told}
    if failed:
        hint = "Mend what each one's message says, then run the job with these tables."
        metadata = summary | {"hint": hint}
        lines = [f"{len(failed)} of {len(outcomes)} tables were not reloaded: {', '.join(failed)}"]
        text = "\n".join(lines + [f"{table}: {outcomes[table].text}" for table in failed])
        raise dg.Failure(text, metadata=metadata, allow_retries=False)
    context.add_output_metadata(summary)

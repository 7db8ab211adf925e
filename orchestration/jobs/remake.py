"""The job that reloads a table from its change log, without the source, from one of its earlier versions or nothing.

It may be killed and run again: the table is replaced in one commit, which is there or not.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from typing import Any

import dagster as dg
from pydantic import Field

from cdc_core.errors import ConfigError, SluiceError
from orchestration import processes
from orchestration.failures import failure
from orchestration.jobs.copying import LONG_RUN, named, named_asset
from orchestration.jobs.order import Order, order_facts, traced
from orchestration.resources import LakeResource
from orchestration.settings import Settings
from spark_jobs.following.base import Base, base_of, copied_version
from spark_jobs.following.pending import Follows
from spark_jobs.following.remake import Remaker

_ACTION = "remake"
NOTHING, COPY = "nothing", "copy"


class Remake(Order):
    """Which table to make anew, and from what."""

    table: str = Field(description="The table, as database.table.")
    begin: str = Field(description="nothing, copy (its last copy or snapshot), or the number of one of its versions.")
    dry_run: bool = Field(True, description="Only say what would be done.")


def remake_job(settings: Settings) -> dg.JobDefinition:
    """It shares the pool of the runs that merge logs, so the two take turns."""
    names = settings.names

    @dg.op(name=f"remake_{names.safe}_op", pool=names.merging, required_resource_keys={names.lake})
    def remake_table(context: dg.OpExecutionContext, config: Remake) -> None:
        processes.note(context)
        lake: LakeResource = getattr(context.resources, names.lake)
        with traced(context, named_asset(settings, config.table), _ACTION, config.reason) as findings:
            named(config.table)
            with lake.merging(settings.destination, settings.client_id, context.run_id) as works:
                version = begin_of(works.follows, config.table, config.begin)
                findings |= {"dry_run": config.dry_run} | base_facts(base_of(works.follows, config.table, version))
                if config.dry_run:
                    context.add_output_metadata(findings)
                    return
                remaker = Remaker(works.follows, works.merger.sessions, context.run_id, views=True)
                made = remaker.table(config.table, version)
            findings |= base_facts(made.base)
            findings |= {"rows": made.rows, "delta_version": made.delta_version, "seconds": round(made.seconds, 1)}
            findings |= {"untold": made.untold} if made.untold else {}
        try:
            facts = order_facts(context, _ACTION, config.reason)
        except SluiceError as error:
            raise failure(error) from error
        context.log_event(dg.AssetMaterialization(names.delta(config.table), metadata=facts | findings))
        context.add_output_metadata(findings)

    @dg.job(
        name=f"remake_{names.safe}",
        config=Remake.form(f"remake_{names.safe}_op"),
        tags={"cdc/remake": settings.destination, **LONG_RUN, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"Make a table of {settings.destination} anew from its change log, without the source, in one "
        "commit. The job takes turns with the runs that merge.",
    )
    def remake() -> None:
        remake_table()

    return remake


def begin_of(follows: Follows, table: str, begin: str) -> int | None:
    """The version from which a table is made; None for nothing. Raises ConfigError for what is neither."""
    if begin == NOTHING:
        return None
    if begin == COPY:
        return copied_version(follows, table)
    if begin.isdecimal():
        return int(begin)
    hint = f"Write {NOTHING}, {COPY}, or the number of a version, as DESCRIBE HISTORY has it."
    raise ConfigError(f"{begin!r} is nothing to begin from", place="begin", hint=hint)


def base_facts(base: Base) -> dict[str, Any]:
    """For metadata and for JSON."""
    epoch, place = base.place
    begin = NOTHING if base.version is None else base.version
    facts = {"table": base.table, "begin": begin, "epoch": epoch, "applied": place, "log_rows_at_most": base.rows}
    return facts | ({"undone": "; ".join(base.undone)[:2000]} if base.undone else {})

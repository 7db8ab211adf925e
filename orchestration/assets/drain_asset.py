"""The Delta tables of one destination as one multi-asset, and the job that drains them.

Claim, merge, checks and ack of a batch are one step of all tables, whatever is selected. A selection decides only what
Dagster plans. The job selects no asset, so it plans nothing: its runs have events of the tables and checks that change,
which Dagster shows with their assets as those of a planned run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import dagster as dg

from orchestration.assets.checks import check_specs, expected_specs
from orchestration.assets.drain import Drain
from orchestration.assets.landed import LandedTables, log_spec
from orchestration.assets.lineage import delta_spec
from orchestration.assets.run import DagsterRun, DrainRun
from orchestration.first_rows import FirstRows
from orchestration.jobs.routine import Routine
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Limits, Settings


def delta_asset(settings: Settings, tables: LandedTables) -> dg.AssetsDefinition:
    """Return the Delta tables of one destination, drained together."""
    merged, logs = tables.merged, tables.logs
    does = "lands and merges" if logs and merged else "lands" if logs else "merges"
    return _routine(settings, tables).asset(
        [
            *(delta_spec(settings, table, tables.schemas[table]) for table in merged),
            *(log_spec(settings, table) for table in logs),
        ],
        check_specs(settings, merged, logs) + expected_specs(settings, merged, tables.expected),
        f"Claims the backlog of {settings.destination} and {does} it, batch after batch.",
    )


def drain_job(settings: Settings, tables: LandedTables) -> dg.JobDefinition:
    """Return the job that the sensor or the schedule starts."""
    return _routine(settings, tables).job(
        f"Drain the backlog of {settings.destination}: claim, merge, check, ack, batch after batch."
    )


def drained(
    run: DrainRun,
    settings: Settings,
    tables: LandedTables,
    limits: Limits,
    canal: CanalResource,
    lake: LakeResource,
    selected: Collection[dg.AssetCheckKey],
) -> Iterator[dg.AssetCheckResult]:
    """Drains a destination. Yields every selected check once, at the end."""
    with canal.draining() as connector, lake.open(connector, canal.token) as spark_lake:
        begins = settings.snapshot != "never" and lake.conf is not None
        drain = Drain(
            run,
            settings.names,
            tables.merged,
            limits,
            connector,
            spark_lake,
            first=FirstRows(connector, lake.has) if begins else None,
            logs=tables.logs,
            expected=tables.expected,
            selected=selected,
            rules=settings.rules.rules,
            watches_columns=settings.schema_change == "warn",
        )
        yield from drain.run()


def _routine(settings: Settings, tables: LandedTables) -> Routine:
    names = settings.names

    def work(context: dg.OpExecutionContext, selected: Collection[dg.AssetCheckKey]) -> Iterator[dg.AssetCheckResult]:
        canal: CanalResource = getattr(context.resources, names.canal)
        lake: LakeResource = getattr(context.resources, names.lake)
        limits = Limits(**context.op_config)
        yield from drained(DagsterRun(context, names.asset), settings, tables, limits, canal, lake, selected)

    resources = frozenset({names.canal, names.lake})
    return Routine(names.asset, names.job, resources, Limits, dict(settings.limits), names.run_tags, work)

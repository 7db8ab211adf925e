"""The Delta tables that follow their change logs, as one multi-asset, and the job that merges them: each at its own
pace.

It needs the lake and Spark alone: the service is asked for nothing but to stop a table that contradicts its log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.assets.checks import expected_specs
from orchestration.assets.landed import LandedTables
from orchestration.assets.lineage import history_spec, merged_spec
from orchestration.assets.merge_run import MergeRun
from orchestration.assets.reports import Reports, ages_of
from orchestration.assets.schema_changes import schema_specs
from orchestration.assets.waiting_rows import BlockedReports, WaitingReports
from orchestration.freshness import parse_freshness
from orchestration.jobs.routine import Routine
from orchestration.names import MERGED
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from spark_jobs.apply.waiting_rows import WaitingRows
from spark_jobs.following.follow import Follow, FollowOptions
from spark_jobs.following.history.columns import work_of
from spark_jobs.following.merged import Merged
from spark_jobs.following.pending import Follows, place_of
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.parked import Parking
from spark_jobs.union.publish import Published, publish

_HISTORY = "The history takes what the change log has: its last write did not fail."
_TEXT = "The table takes what its change log has: its last merge did not fail."


class Following(dg.Config):
    """How a run merges. `defs.yaml` has the defaults."""

    max_seconds: float = Field(3000, gt=0, description="The run begins no merge after this time.")
    linger_seconds: float = Field(10, ge=0, description="The run ends when there was nothing to merge for this long.")
    parallelism: int = Field(0, ge=0, description="Tables merged side by side; 0: as many as Spark has cores.")
    parked: bool = Field(False, description="Try tables that wait after a failure at once.")
    freshness_seconds: float = Field(
        0, ge=0, description="A row may be so old until its table has it; 0: as fresh as can be."
    )


def merge_asset(settings: Settings, tables: LandedTables) -> dg.AssetsDefinition:
    """Return the tables of a destination that follow their logs, and their histories."""
    names, own, kept = settings.names, tables.followed, tables.histories
    return _routine(settings, tables).asset(
        [
            *(merged_spec(settings, table, tables.schemas[table]) for table in own),
            *(history_spec(settings, table, tables.schemas[table]) for table in kept),
        ],
        [
            *(dg.AssetCheckSpec(MERGED, asset=names.delta(table), description=_TEXT) for table in own),
            *(dg.AssetCheckSpec(MERGED, asset=names.history(table), description=_HISTORY) for table in kept),
            *expected_specs(settings, own, tables.expected),
            *(schema_specs(map(names.delta, own)) if settings.schema_change == "warn" else ()),
        ],
        f"Merges the change logs of {settings.destination}, table by table.",
    )


def merge_job(settings: Settings, tables: LandedTables) -> dg.JobDefinition:
    """Return the job that the sensor starts."""
    return _routine(settings, tables).job(f"Merge the change logs of {settings.destination} into their tables.")


def _routine(settings: Settings, tables: LandedTables) -> Routine:
    names = settings.names
    declared = [*tables.followed, *(work_of(table) for table in tables.histories)]

    def work(context: dg.OpExecutionContext, selected: Collection[dg.AssetCheckKey]) -> Iterator[dg.AssetCheckResult]:
        canal: CanalResource = getattr(context.resources, names.canal)
        lake: LakeResource = getattr(context.resources, names.lake)
        pace = FollowOptions(**context.op_config)
        with lake.merging(settings.destination, settings.client_id, context.run_id) as works:
            pace = replace(pace, parallelism=pace.parallelism or works.cores())
            parking = Parking(works.follows.lake, settings.destination, settings.client_id)
            follow = Follow(works, parking, lambda: works.of(_landed(works.follows, tables.follows)), pace)
            ages = ages_of(context.instance)
            reports = Reports(context.log_event, settings.report_seconds, time.monotonic, ages)
            stop = partial(_stop, canal, works.follows)
            unions = partial(_published, works.follows.lake)
            waiting = _waiting(context, canal, works.follows)
            blocked = BlockedReports(canal.connect, parking, context.log.warning)
            run = MergeRun(
                context,
                names,
                declared,
                follow,
                stop,
                unions,
                reports,
                selected,
                tables.expected,
                waiting,
                blocked,
                works.follows.lake,
                settings.schema_change == "warn",
            )
            follow.gives_way = run.gives_way
            yield from run.run()

    resources = frozenset({names.canal, names.lake})
    return Routine(names.merging, names.merging_job, resources, Following, _defaults(settings), names.merge_tags, work)


def _landed(follows: Follows, is_landed: Callable[[str], bool]) -> list[str]:
    return [table for table in follows.lake.logs(follows.destination) if is_landed(table)]


def _published(lake: Lake, table: str) -> list[Published]:
    return [publish(lake, one, [table]) for one in lake.unions.among([table])]


def _waiting(context: dg.OpExecutionContext, canal: CanalResource, follows: Follows) -> WaitingReports:
    def count(epoch: int, tables: Collection[str] | None = None) -> dict[str, int]:
        return WaitingRows(follows.lake, follows.destination, follows.client_id, epoch).counts(tables)

    def report(rows: Mapping[str, int], *, whole: bool = False) -> None:
        with canal.connect() as connector:
            connector.report_quarantined(rows, whole=whole)

    return WaitingReports(count, report, lambda _: True, context.log.warning)


def _stop(canal: CanalResource, follows: Follows, merged: Merged) -> None:
    """Has the service note it, as of a table that contradicts a batch."""
    hint = copy_hint(follows.destination, merged.table)
    with canal.connect() as connector:
        position = place_of(merged.upto)
        connector.stop_table(merged.table, reason=merged.contradiction, hint=hint, position=position, copy_needed=True)


def _defaults(settings: Settings) -> dict[str, Any]:
    """Return a run's configuration as defs.yaml declares it. With `freshness: asap` a run stays, as the drain's does:
    the start of another one would cost more than a merge."""
    limits = settings.limits
    known = {name: getattr(limits, name) for name in ("parallelism", "linger_seconds", "max_seconds")}
    known |= {"linger_seconds": limits.max_seconds} if settings.merges_stay else {}
    return known | {"freshness_seconds": parse_freshness(settings.freshness).seconds}

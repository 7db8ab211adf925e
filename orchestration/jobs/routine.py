"""The work of a destination that starts again and again: an asset of its tables, and a job that does the same.

The job, which sensors start, selects no asset. Of each asset that a run selects, Dagster writes an event that it is
planned, looks up what its sources had last, and keeps the selection in a snapshot of the job: seconds and a megabyte
for 500 tables, whatever changes. What a run materializes and checks is an event of the asset all the same.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from cdc_core.errors import (
    CursorError,
    LakeError,
    RangeGone,
    RunsElsewhere,
    RunsNowhere,
    ServiceUnavailable,
    SessionError,
    SluiceError,
    SourceUnavailable,
)
from orchestration import processes
from orchestration.failures import failure
from orchestration.jobs.clock import schedule_of
from orchestration.settings import Settings

Work = Callable[[dg.OpExecutionContext, Collection[dg.AssetCheckKey]], Iterator[dg.AssetCheckResult]]
"""What a run does, as an asset or as a job. It yields the results of the checks that the run selected."""

MAX_RETRIES = 2
RETRY_SECONDS = 5.0  # before the first; twice as long before the next
_WORTH_A_RETRY = (
    ServiceUnavailable,
    SourceUnavailable,
    CursorError,
    LakeError,
    RangeGone,
    RunsElsewhere,
    RunsNowhere,
    SessionError,
)


@dataclass(frozen=True, slots=True)
class Routine:
    """`name` of the multi-asset, of its op and its pool. `config`: the model of a run's configuration, and `defaults`
    for it. `tags`: of the runs."""

    name: str
    job_name: str
    resources: frozenset[str]
    config: type[dg.Config]
    defaults: Mapping[str, Any]
    tags: Mapping[str, str]
    work: Work

    def asset(
        self, specs: Sequence[dg.AssetSpec], checks: Sequence[dg.AssetCheckSpec], description: str
    ) -> dg.AssetsDefinition:
        """Return the asset: one step of all tables, whatever is selected."""

        @dg.multi_asset(
            name=self.name,
            specs=specs,
            check_specs=checks,
            can_subset=True,
            config_schema=self._config_schema(),
            required_resource_keys=set(self.resources),
            pool=self.name,
            description=description,
        )
        def act(context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckResult]:
            yield from self._run(context.op_execution_context, context.selected_asset_check_keys)

        return act

    def job(self, description: str) -> dg.JobDefinition:
        """Return the job, of one process."""

        @dg.op(
            name=f"{self.job_name}_op",
            pool=self.name,
            required_resource_keys=set(self.resources),
            config_schema=self._config_schema(),
        )
        def act(context: dg.OpExecutionContext) -> None:
            for _ in self._run(context, ()):
                pass

        @dg.job(name=self.job_name, tags=dict(self.tags), executor_def=dg.in_process_executor, description=description)
        def job() -> None:
            act()

        return job

    def _run(
        self, context: dg.OpExecutionContext, selected: Collection[dg.AssetCheckKey]
    ) -> Iterator[dg.AssetCheckResult]:
        context.instance.add_run_tags(context.run_id, {**self.tags, **processes.tag(context.run_id)})
        try:
            yield from self.work(context, selected)
        except (dg.Failure, dg.DagsterError):
            raise
        except Exception as error:
            raise _retry_or_failure(error, context.retry_number) from error

    def _config_schema(self) -> dict[str, dg.Field]:
        return {
            name: dg.Field(
                field.annotation,
                default_value=self.defaults.get(name, field.default),
                description=field.description,
            )
            for name, field in self.config.model_fields.items()
        }


def _retry_or_failure(error: Exception, tried: int) -> Exception:
    """Return what to raise for an error: a retry within the run where one may help. A RetryPolicy would also retry a
    run that is being terminated."""
    if tried < MAX_RETRIES and (isinstance(error, _WORTH_A_RETRY) or not isinstance(error, SluiceError)):
        return dg.RetryRequested(max_retries=MAX_RETRIES, seconds_to_wait=RETRY_SECONDS * 2**tried)
    return failure(error) if isinstance(error, SluiceError) else error


def drain_schedule(settings: Settings, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Starts the drain by the clock, instead of the sensor."""
    name = f"cdc_{settings.names.safe}_schedule"
    return schedule_of(name, job, settings.starts.cron, tags=settings.names.run_tags)

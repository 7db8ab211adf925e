"""The jobs that a person starts with a reason: one for each verb, made of its model."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from cdc_core.errors import ConfigError, SluiceError
from orchestration import processes
from orchestration.failures import failure
from orchestration.internals import SENSOR_NAME_TAG
from orchestration.jobs.clock import schedule_of
from orchestration.jobs.history import History
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from orchestration.verbs.access import Access, Declared
from orchestration.verbs.orders import Order
from spark_jobs.session import Sessions

LONG_RUN = {dg.MAX_RUNTIME_SECONDS_TAG: str(30 * 86_400)}  # tags: Dagster ends other runs after an hour
_TURNS = {
    "drain": "The job takes turns with the runs that drain.",
    "merges": "The job takes turns with the runs that merge change logs.",
    "own": "Runs that drain go on meanwhile.",
}


class Config(dg.Config):
    """The fields that every job has, in addition to its verb's."""

    reason: str = Field(max_length=1000, description="Why. It is kept in the history of the asset.")

    def __init__(self, **fields: Any) -> None:
        """Raises Failure for a value out of bounds, whose type the launchpad has let through."""
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise failure(invalid(error)) from error


def job_of(order: type[Order], settings: Settings) -> dg.JobDefinition:
    """Return the job of a verb for one destination. Its configuration has the fields of the verb's model."""
    names = settings.names
    name = job_name(order, settings)
    pool = {"drain": names.asset, "merges": names.merging, "own": name}[order.POOL]
    config_type = create_model(f"{order.__name__}Config", __base__=(order, Config))

    @dg.op(name=f"{name}_op", pool=pool, required_resource_keys={names.canal, names.lake})
    def act(context: dg.OpExecutionContext, config: config_type) -> None:  # type: ignore[valid-type]
        processes.note(context)
        history = History(context, names, config, config.reason)  # type: ignore[attr-defined]
        try:
            at = access_of(context.resources, settings, context.run_id, reads=order.READS)
            at = replace(at, by_itself=SENSOR_NAME_TAG in context.run.tags)
            config.run(at, history)  # type: ignore[attr-defined]
        except SluiceError as error:
            raise failure(error) from error
        history.end()

    @dg.job(
        name=name,
        config={"ops": {f"{name}_op": {"config": _form(config_type)}}},
        tags={tag_of(order): settings.destination, **LONG_RUN, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"{order.__doc__}\n\n{_TURNS[order.POOL]}",
    )
    def job() -> None:
        act()

    return job


def job_name(order: type[Order], settings: Settings) -> str:
    """The name of a verb's job."""
    return f"{order.VERB}_{settings.names.safe}"


def tag_of(order: type[Order]) -> str:
    """The tag of the runs of a verb's job; its value is the destination."""
    return f"cdc/{order.VERB}"


def run_config(job: str, **config: Any) -> dict[str, Any]:
    """The configuration of a run of the job of that name."""
    return {"ops": {f"{job}_op": {"config": config}}}


def maintain_schedule(settings: Settings, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """As `maintain` in defs.yaml says."""
    config = run_config(job.name, reason="by the schedule of `maintain`")
    return schedule_of(f"{job.name}_schedule", job, settings.maintain or "", config=config)


def access_of(resources: Any, settings: Settings, run_id: str, *, reads: bool = True) -> Access:
    """Returns what a verb works with in a run. `reads`: as `Order.READS`."""
    canal: CanalResource = getattr(resources, settings.names.canal)
    lake: LakeResource = getattr(resources, settings.names.lake)

    return Access(
        settings.destination,
        settings.client_id,
        canal.reading if reads else canal.connect,
        lambda: Sessions(lake.remote, lake.token or "", lake.root),
        lake.lake,
        Path(lake.conf) if lake.conf else None,
        run_id,
        Declared.of(settings),
    )


def invalid(error: ValidationError) -> ConfigError:
    """Names the first wrong field, its value, and what is allowed."""
    first = error.errors()[0]
    field, words = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    if not field:
        return ConfigError(words, place="ops.config", hint="Correct it in the launchpad and launch the job again.")
    message = f"{field} is {str(first['input'])[:100]!r}: {words[:1].lower()}{words[1:]}"
    hint = f"Correct {field} in the launchpad and launch the job again; nothing was done."
    return ConfigError(message, place=f"ops.config.{field}", hint=hint)


def _form(config: type[BaseModel]) -> dict[str, Any]:
    """Returns a job's default configuration, which the launchpad shows to be filled in: every field with its default,
    or empty. Otherwise it would show the resources, where nothing is to be changed."""
    return {name: _shown(field) for name, field in config.model_fields.items()}


def _shown(field: FieldInfo) -> Any:
    """Returns the value of a field in the form."""
    if not field.is_required():
        return field.default
    return [] if field.annotation == list[str] else ""

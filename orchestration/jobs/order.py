"""What the jobs that a person starts have in common: the reason, and the trace in an asset's history.

An action is told before it begins and when it has ended. A run that is killed in between leaves the first word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dagster as dg
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from cdc_core.errors import ConfigError, SluiceError
from orchestration.failures import error_metadata, failure
from orchestration.internals import SCHEDULE_NAME_TAG, SENSOR_NAME_TAG, USER_TAG

_BY = (USER_TAG, SCHEDULE_NAME_TAG, SENSOR_NAME_TAG)


class Order(dg.Config):
    """What every job asks for."""

    reason: str = Field(max_length=1000, description="Why. It is kept in the history of the asset.")

    def __init__(self, **fields: Any) -> None:
        """Raises Failure for a value out of bounds, whose type the launchpad has let through."""
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise failure(_out_of_bounds(error)) from error

    @classmethod
    def form(cls, op: str) -> dict[str, Any]:
        """A job's default configuration, which the launchpad shows to be filled in: every field with its default, and
        empty what has none. Otherwise it would show the resources, where nothing is to be changed."""
        config = {name: _shown(field) for name, field in cls.model_fields.items()}
        return {"ops": {op: {"config": config}}}


@contextmanager
def traced(context: dg.OpExecutionContext, key: dg.AssetKey, action: str, reason: str) -> Iterator[dict[str, Any]]:
    """Tells in the asset's history that the action begins, and what became of it: the block puts its findings into the
    dictionary. An error is told as well; a SluiceError becomes Dagster's failure."""
    try:
        facts = order_facts(context, action, reason)
    except SluiceError as error:
        raise failure(error) from error
    _tell(context, key, "begun", facts)
    findings: dict[str, Any] = {}
    try:
        yield findings
    except SluiceError as error:
        _tell(context, key, "failed", facts | findings | error_metadata(error))
        raise failure(error) from error
    except dg.Failure as error:
        _tell(context, key, "failed", facts | findings | dict(error.metadata or {}) | {"message": error.description})
        raise
    except Exception as error:
        _tell(context, key, "failed", facts | findings | {"message": f"{type(error).__name__}: {error}"[:1000]})
        raise
    _tell(context, key, "done", facts | findings)


def order_facts(context: dg.OpExecutionContext, action: str, reason: str) -> dict[str, Any]:
    """The metadata that tells who asked for what, and why. Raises ConfigError for a reason without words."""
    if not reason.strip():
        hint = "Say why: whoever looks at the table later reads it."
        raise ConfigError("the reason is empty", place=f"ops.{context.op_def.name}.config.reason", hint=hint)
    facts = {"action": action, "reason": reason.strip(), "run_id": context.run_id}
    by = started_by(context.run.tags)
    return facts | {"by": by} if by else facts


def started_by(tags: Mapping[str, str]) -> str:
    """The user, schedule or sensor that started a run, "" where Dagster does not know. Without accounts it does not
    know people."""
    return next((tags[tag] for tag in _BY if tags.get(tag)), "")


def _shown(field: FieldInfo) -> Any:
    """What stands in the form for a field."""
    if not field.is_required():
        return field.default
    return "" if field.annotation is str else []


def _out_of_bounds(error: ValidationError) -> ConfigError:
    """Names the first such field, its value and its bound."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    message = f"{field} is {str(first['input'])[:100]!r}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    hint = f"Correct {field} in the launchpad and launch the job again; nothing was done."
    return ConfigError(message, place=f"ops.config.{field}", hint=hint)


def _tell(context: dg.OpExecutionContext, key: dg.AssetKey, outcome: str, facts: Mapping[str, Any]) -> None:
    told = {name: value for name, value in facts.items() if value is not None}
    context.log_event(dg.AssetObservation(key, metadata={"outcome": outcome, **told}))

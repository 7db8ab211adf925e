"""Runs of a destination's jobs in this process, and what they left in the history of assets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings

NOWHERE = "sc://127.0.0.1:1"  # a Spark that no test asks


@dataclass(frozen=True)
class Executed:
    """A run that has ended. `history`: asset and metadata of each observation and materialization, in order; only an
    observation has an `outcome`. `failure`: the words that ended it, "" for none; `summary`: the metadata of its
    output, or of its failure."""

    run_id: str
    success: bool
    history: list[tuple[str, dict[str, Any]]]
    failure: str
    summary: dict[str, Any]


def executed(
    make: Callable[[Settings], dg.JobDefinition],
    http_url: str,
    conf: Path,
    tags: dict[str, str] | None = None,
    **config: Any,
) -> Executed:
    """One job of the destination `shop`, with this configuration of its op."""
    job = make(Settings(destination="shop", lake=str(conf / "lake"), conf=str(conf)))
    resources = {
        "canal_shop": CanalResource(destination="shop", http_url=http_url),
        "lake_shop": LakeResource(root=str(conf / "lake"), remote=NOWHERE, conf=str(conf)),
    }
    given = {"ops": {f"{job.name}_op": {"config": config}}}
    with dg.DagsterInstance.ephemeral() as instance:
        run = job.execute_in_process(given, resources=resources, raise_on_error=False, tags=tags, instance=instance)
        events = [log.dagster_event for log in instance.all_logs(run.run_id) if log.dagster_event]
    return Executed(run.run_id, run.success, list(_history(events)), _failure(events), _summary(events))


@contextmanager
def unopened(*_: object) -> Iterator[None]:
    """In the place of what would open Spark."""
    yield None


def _history(events: list[dg.DagsterEvent]) -> Iterator[tuple[str, dict[str, Any]]]:
    for event in events:
        if event.is_asset_observation:
            told: Any = event.asset_observation_data.asset_observation
        elif event.is_step_materialization:
            told = event.step_materialization_data.materialization
        else:
            continue
        yield told.asset_key.to_user_string(), {name: value.value for name, value in told.metadata.items()}


def _failure(events: list[dg.DagsterEvent]) -> str:
    for event in events:
        if event.is_step_failure:
            data: Any = event.step_failure_data
            return str(data.user_failure_data.description if data.user_failure_data else data.error)
    return ""


def _summary(events: list[dg.DagsterEvent]) -> dict[str, Any]:
    for event in events:
        data: Any = event.event_specific_data
        if event.is_step_failure and data.user_failure_data:
            return dict(data.user_failure_data.metadata)
        if event.is_successful_output:
            return dict(data.metadata)
    return {}

"""Runs of a destination's jobs in this process, and what they left in the history of assets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from orchestration.commands.verb import access_of, run
from orchestration.jobs.by_hand import job_of, run_config
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from orchestration.verbs.orders import Order

NOWHERE = "sc://127.0.0.1:1"  # a Spark that no test asks


def write_conf(path: Path) -> Path:
    """The configuration of a destination `shop` whose source no test asks."""
    (path / "shop").mkdir(parents=True)
    (path / "canal.properties").write_text("canal.destinations = shop\n")
    (path / "shop" / "instance.properties").write_text("canal.instance.master.address = 127.0.0.1:3306\n")
    return path


def commanded(order: Order, http_url: str, conf: Path, *, as_json: bool = True, reason: str = "") -> int:
    """The exit code of the verb as a command."""
    at = access_of("shop", lake=str(conf / "lake"), conf=conf, spark=NOWHERE, service=http_url)
    return run(order, at, as_json=as_json, reason=reason)


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
    order: type[Order],
    http_url: str,
    conf: Path,
    tags: dict[str, str] | None = None,
    settings: Settings | None = None,
    rules: str = "",
    **config: Any,
) -> Executed:
    """One job of the destination `shop`, with this configuration of its op."""
    job = job_of(order, settings or Settings(destination="shop", lake=str(conf / "lake"), conf=str(conf)))
    with dg.DagsterInstance.ephemeral() as instance:
        run = job.execute_in_process(
            run_config(job.name, **config),
            resources=resources(conf, http_url, rules),
            raise_on_error=False,
            tags=tags,
            instance=instance,
        )
        events = [log.dagster_event for log in instance.all_logs(run.run_id) if log.dagster_event]
    return Executed(run.run_id, run.success, list(_history(events)), _failure(events), _summary(events))


def resources(conf: Path, http_url: str = "http://127.0.0.1:1", rules: str = "") -> dict[str, Any]:
    """Those of the destination."""
    return {
        "canal_shop": CanalResource(destination="shop", http_url=http_url, rules=rules),
        "lake_shop": LakeResource(root=str(conf / "lake"), remote=NOWHERE, conf=str(conf)),
    }


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

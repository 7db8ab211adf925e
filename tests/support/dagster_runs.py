"""Records of runs in Dagster, without anything that executes."""

from __future__ import annotations

import dagster as dg

SHOP = {"cdc/destination": "shop"}


@dg.op
def nothing() -> None:
    pass


@dg.job
def drain_shop() -> None:
    nothing()


def a_run(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, **tags: str) -> str:
    """The id of a new run of the destination `shop`."""
    tags = SHOP | {f"cdc/{name}": value for name, value in tags.items()}
    return instance.create_run_for_job(drain_shop, status=status, tags=tags).run_id

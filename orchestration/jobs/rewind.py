"""The job that sets the cursor of a destination to another place, as `sluice reset`, and first says what that means.

The service sets the cursor whole or not at all, also when the run is killed meanwhile. Done twice, rows come again from
the same place, and the lake leaves out what it has or merges it by the key.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from typing import Any

import dagster as dg
from pydantic import Field

from cdc_core.client.operator_calls import ResetResult
from cdc_core.errors import ConfigError, PositionError
from orchestration import processes
from orchestration.jobs.order import Order, order_facts, traced
from orchestration.places import target
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from spark_jobs.lake.ledger import Begun, Ledger
from spark_jobs.lake.tables import Lake

REWIND_TAG = "cdc/rewind"
_PLACES = "position, timestamp, gtid, batch, materialized_by, earliest, latest or anew"


class Rewind(Order):
    """Where to: exactly one place."""

    position: str | None = Field(None, description="FILE:OFFSET, where a transaction begins.")
    timestamp: str | None = Field(
        None,
        description="2026-11-21T12:00:00Z, or milliseconds since the epoch, in quotes: the first transaction "
        "of that second, or the last before it.",
    )
    gtid: str | None = Field(None, description="A set of GTIDs: the first transaction that it lacks.")
    batch: int | None = Field(
        None, description="To where this batch began: the batch_id in the metadata of a table's materialization."
    )
    materialized_by: str | None = Field(None, description="A run's id: to where its first batch began.")
    earliest: bool = Field(False, description="The oldest binlog that the source has.")
    latest: bool = Field(False, description="The end of the source; set `skip` as well.")
    anew: bool = Field(
        False,
        description="The end of the source; all tables stop until snapshots reload them.",
    )
    skip: bool = Field(False, description="Skip what lies before a place ahead of the cursor: the lake never gets it.")
    moved: bool = Field(False, description="The source is another server now.")
    epoch: int = Field(0, description="The least number of the new epoch, where the lake knows of later ones.")
    identity: str = Field("", description="Take over this identity, by which the lake knows its writer.")
    dry_run: bool = Field(
        True, description="Only say what it would mean. Look at the findings, then run it with false."
    )


def rewind_job(settings: Settings) -> dg.JobDefinition:
    """Sets this client's cursor. It shares the drain's pool, so that no run is at work."""
    names = settings.names

    @dg.op(name=f"rewind_{names.safe}_op", pool=names.asset, required_resource_keys={names.canal, names.lake})
    def rewind_op(context: dg.OpExecutionContext, config: Rewind) -> None:
        canal: CanalResource = getattr(context.resources, names.canal)
        lake: LakeResource = getattr(context.resources, names.lake)
        processes.note(context)
        action = "rewind, dry run" if config.dry_run else "rewind"
        with traced(context, names.store, action, config.reason) as found, canal.connect() as connector:
            begun = _begun(config, Ledger(Lake(lake.root), settings.destination, settings.client_id))
            fields: dict[str, Any] = {
                "client_id": settings.client_id,
                "moved": config.moved,
                "epoch": config.epoch,
                "identity": config.identity,
                "of_epoch": begun.epoch if begun else None,
            }
            to = place_of(config, begun)
            answer = connector.by_hand.reset(to, **fields)
            found |= findings(answer)
            if not config.dry_run:
                check_skipped(answer, may=config.skip or config.anew)
                answer = connector.by_hand.reset(to, **fields, dry_run=False)
                found |= findings(answer)
                _tell_stopped(context, settings, answer, config.reason)
        context.add_output_metadata(found)
        context.log.info("Nothing was done: run it with dry_run false." if config.dry_run else f"at {found['to']} now")

    @dg.job(
        name=f"rewind_{names.safe}",
        config=Rewind.form(f"rewind_{names.safe}_op"),
        tags={REWIND_TAG: settings.destination, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"Set the cursor of {settings.destination} to an earlier place, as `sluice reset`: its rows come "
        "again, and the lake has them once. By default it is a dry run, which changes nothing.",
    )
    def rewind() -> None:
        rewind_op()

    return rewind


def place_of(config: Rewind, begun: Begun | None) -> str | int | dict[str, Any]:
    """The `to` of the service's reset; `begun` is where the named batch or run began. Raises ConfigError unless exactly
    one place is given, and well formed."""
    given = (config.position, config.timestamp, config.gtid, config.batch, config.materialized_by)
    one_place = sum(one is not None for one in given) + config.earliest + config.latest + config.anew == 1
    at = str(begun.position) if begun else config.position
    ends = {"earliest": config.earliest, "latest": config.latest, "anew": config.anew}
    to = target(at, config.timestamp, config.gtid, **ends)
    if to is None or not one_place:
        hint = f"Give one of {_PLACES}."
        raise ConfigError("not exactly one place, or not well formed", place="ops.config", hint=hint)
    return to


def check_skipped(answer: ResetResult, *, may: bool) -> None:
    """Raises PositionError for a place ahead of the cursor, unless rows may be skipped."""
    skipped = sum(move.skipped_bytes or 0 for move in answer.clients)
    if skipped and not may:
        raise PositionError(
            f"the place is ahead of the cursor: {skipped:,} bytes of binlog would be skipped, and nothing was done",
            place=str(answer.to),
            hint="The lake would never get these changes. If that is wanted, set `skip` in the job's configuration.",
        )


def findings(answer: ResetResult) -> dict[str, Any]:
    """As metadata. Bytes that are not known are left out."""
    found: dict[str, Any] = {"to": str(answer.to), "changed": answer.done}
    for move in answer.clients:
        found |= {"from": str(move.old or "none"), "other_server": move.moved}
        known = {"again_bytes": move.again_bytes, "skipped_bytes": move.skipped_bytes}
        found |= {name: value for name, value in known.items() if value is not None}
    return found | ({"anew": ", ".join(answer.anew)} if answer.anew else {})


def _tell_stopped(context: dg.OpExecutionContext, settings: Settings, answer: ResetResult, reason: str) -> None:
    """In the history of each table that is to be reloaded."""
    facts = {"outcome": "stopped", **order_facts(context, "rewind", reason), "position": str(answer.to)}
    for table in answer.anew:
        context.log_event(dg.AssetObservation(settings.names.delta(table), metadata=facts))


def _begun(config: Rewind, ledger: Ledger) -> Begun | None:
    """Where the batch or the run began that is named; None where none is. Raises ConfigError for one that the lake does
    not have."""
    if config.batch is not None:
        found, what = ledger.begun_by_batch(config.batch), f"batch {config.batch}"
    elif config.materialized_by is not None:
        found, what = ledger.begun_by_run(config.materialized_by), f"a batch of run {config.materialized_by}"
    else:
        return None
    if found is None:
        hint = (
            "Look at batch_id and run_id in the metadata of a table's materializations, or give their start_position."
        )
        raise ConfigError(f"the lake has no {what}", place=ledger.path, hint=hint)
    return found

"""The store of a destination, as Dagster shows it: its asset, its observations, and its lag.

The sensor observes it and evaluates its check when something changed; the check can be run by hand too.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

from typing import Any

import dagster as dg

from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.status import Status
from cdc_core.errors import SluiceError
from orchestration.failures import error_metadata, failure
from orchestration.resources import CanalResource
from orchestration.settings import Settings

LAG = "lag_seconds"


def store_metadata(status: Status, client: ClientStatus) -> dict[str, Any]:
    """An observation's metadata: the store as the service reports it, and this client's place in it."""
    facts: dict[str, Any] = {
        "state": status.state,
        "position": str(status.position or "none"),
        "cursor": str(client.cursor or "none"),
        "put": client.put,
        "get": client.get,
        "ack": client.ack,
        "backlog_rows": client.backlog_rows,
        "backlog_ddl": client.backlog_ddl,
        "backlog_bytes": client.backlog_bytes,
        "claims": len(client.claims),
        "rollbacks": client.rollbacks,
        "epoch": client.epoch,
        "stopped_tables": ", ".join(stop.table for stop in client.halted) or "none",
    }
    if status.lag_seconds is not None:
        facts["lag_seconds"] = float(status.lag_seconds)
    if status.error is not None:
        facts["error"] = str(status.error.as_error())
    return facts


def lag_check(settings: Settings) -> dg.AssetChecksDefinition:
    """The check of the store, for a run by hand: asks the service for its lag."""
    names = settings.names

    @dg.asset_check(
        asset=names.store,
        name=LAG,
        description=f"The newest row waits no longer than {settings.lag_warning_seconds:g} seconds.",
        required_resource_keys={names.canal},
    )
    def lag(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        canal: CanalResource = getattr(context.resources, names.canal)
        try:
            with canal.connect() as connector:
                status = connector.status()
        except SluiceError as error:
            raise failure(error) from error
        found = lag_evaluation(settings, status)
        return dg.AssetCheckResult(
            passed=found.passed, severity=found.severity, description=found.description, metadata=dict(found.metadata)
        )

    return lag


def lag_evaluation(settings: Settings, status: Status) -> dg.AssetCheckEvaluation:
    """Red when the destination has an error, yellow when its lag is too long."""
    seconds, error = float(status.lag_seconds or 0.0), status.error.as_error() if status.error else None
    return dg.AssetCheckEvaluation(
        asset_key=settings.names.store,
        check_name=LAG,
        passed=error is None and seconds <= settings.lag_warning_seconds,
        severity=dg.AssetCheckSeverity.ERROR if error else dg.AssetCheckSeverity.WARN,
        description=str(error) if error else f"{seconds:.0f} s behind the source",
        metadata={"lag_seconds": seconds, **(error_metadata(error) if error else {})},
    )

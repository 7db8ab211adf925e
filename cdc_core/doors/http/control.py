"""The `/v1` calls of operators: what a destination does, and starting, stopping or resetting it by hand."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from cdc_core.destination.rewind import RewindTarget
from cdc_core.doors.all_destinations import all_destinations
from cdc_core.doors.http import answers, requests
from cdc_core.doors.http.claims import add_claims
from cdc_core.doors.http.measured import measured
from cdc_core.doors.http.paths import CLIENT, DESTINATION, ClientId
from cdc_core.doors.http.snapshots import add_snapshots
from cdc_core.doors.traffic import Traffic
from cdc_core.position import EntryPosition
from cdc_core.server.server import CanalServer
from cdc_core.source.start.tree import ByGtid

_FAILURE = {"application/json": {"schema": {"$ref": f"#/components/schemas/{answers.Failure.__name__}"}}}
_FAILURES: dict[
    int | str, dict[str, Any]
] = {  # `default` defines the schema; FastAPI builds a validator for each `model`
    400: {"content": _FAILURE, "description": "Malformed request"},
    401: {"content": _FAILURE, "description": "No token, or a wrong one"},
    404: {"content": _FAILURE, "description": "Unknown destination"},
    409: {"content": _FAILURE, "description": "Does not fit the session"},
    410: {"content": _FAILURE, "description": "The range is gone"},
    503: {"content": _FAILURE, "description": "Source, store or cursor store unavailable"},
    "default": {"model": answers.Failure, "description": "Anything else"},
}


def control_router(server: CanalServer, traffic: Traffic) -> APIRouter:
    """All `/v1` calls. Each one makes one call of the server or of a destination's service."""
    router = APIRouter(prefix="/v1", responses=_FAILURES, route_class=measured(server, traffic))
    _add_reading(router, server)
    _add_missing(router, server)
    _add_switching(router, server)
    _add_reset(router, server)
    add_claims(router, server, traffic)
    add_snapshots(router, server)
    return router


def _add_reading(router: APIRouter, server: CanalServer) -> None:
    @router.get("/destinations", response_model=list[answers.DestinationAnswer])
    def destinations() -> Any:
        """The status of all destinations."""
        return [found.status().to_dict() for found in all_destinations(server).values()]

    @router.get(DESTINATION, response_model=answers.DestinationAnswer)
    def destination(destination: str) -> Any:
        """The status of one destination: state, source, position, store, lag, clients and error."""
        return server.destination(destination).status().to_dict()

    @router.get(DESTINATION + "/tables", response_model=list[answers.TableColumns])
    def tables(destination: str) -> Any:
        """The captured tables with their columns."""
        found = server.destination(destination).service().tables()
        return answers.large(lambda: [schema.to_dict() for schema in found])

    @router.get(CLIENT, response_model=answers.Client)
    def client(destination: str, client_id: ClientId) -> Any:
        """A client's cursor, sequences, claims and stopped tables."""
        return server.destination(destination).service().client(client_id).to_dict()

    @router.get(DESTINATION + "/positions", response_model=answers.PositionsAnswer)
    def positions(destination: str) -> Any:
        """The source's end, and how far each client's cursor is behind it. Asks the source now."""
        return server.positions(destination).to_dict()


def _add_missing(router: APIRouter, server: CanalServer) -> None:
    @router.post(DESTINATION + "/missing", response_model=answers.Missing)
    def missing(destination: str, body: requests.MissingRequest) -> Any:
        """The GTIDs of a set that the source has not executed. Asks the source now."""
        return {"missing": server.missing(destination, body.gtid)}


def _add_switching(router: APIRouter, server: CanalServer) -> None:
    @router.post(DESTINATION + "/start", response_model=answers.DestinationAnswer)
    def start(destination: str) -> Any:
        """Starts a destination that is lazy or was stopped by an operator."""
        return server.start_destination(destination).to_dict()

    @router.post(DESTINATION + "/stop", response_model=answers.DestinationAnswer)
    def stop(destination: str) -> Any:
        """Stops a destination until it is started by hand or its configuration changes. Its claims are lost."""
        return server.stop_destination(destination).to_dict()

    @router.post(DESTINATION + "/reload", response_model=answers.DestinationAnswer)
    def reload(destination: str) -> Any:
        """Restarts a destination with its present configuration, without waiting for the next scan."""
        return server.reload_destination(destination).to_dict()


def _add_reset(router: APIRouter, server: CanalServer) -> None:
    @router.post(DESTINATION + "/reset", response_model=answers.ResetAnswer)
    def reset(destination: str, body: requests.ResetRequest) -> Any:
        """Sets cursors to a position of the source. By default it only answers what would be read again or skipped."""
        target = RewindTarget(_place(body.to), body.client_id, body.moved, body.epoch, body.identity, body.of_epoch)
        return server.reset_destination(destination, target, dry_run=body.dry_run).to_dict()


def _place(to: Any) -> Any:
    """The request's `to` as `RewindTarget` takes it."""
    if isinstance(to, requests.Position):
        return EntryPosition.from_dict(to.model_dump())
    return ByGtid(to.gtid) if isinstance(to, requests.GtidPlace) else to

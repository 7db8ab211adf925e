"""The `/v1` calls: each one translates a request into one call of an instance, and its answer into JSON.

Waiting for rows happens in a pool of its own, so that many waiting claimers hold up neither each other nor the other
calls. A claim whose claimer went away while it waited is given back at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Path, Request, Response
from fastapi.routing import APIRoute

from cdc_core.doors import models
from cdc_core.doors.failures import status_of
from cdc_core.doors.ports import InstancePort, ServerPort, instances
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import SluiceError, UnknownDestination
from cdc_core.position import EntryPosition
from cdc_core.rewind import Target
from cdc_core.session.claim import Claim
from cdc_core.source.start_tree import ByGtid

WAITERS = 256  # claim calls that may wait at the same time; further ones queue
_LOOK = 1.0  # seconds after which a waiting claim looks whether its claimer is still there

_FAILURES: dict[int | str, dict[str, Any]] = {
    400: {"model": models.Failure, "description": "Malformed request"},
    401: {"model": models.Failure, "description": "No token, or a wrong one"},
    404: {"model": models.Failure, "description": "Unknown destination"},
    409: {"model": models.Failure, "description": "Does not fit the session"},
    410: {"model": models.Failure, "description": "The range is gone"},
    503: {"model": models.Failure, "description": "Source, store or cursor store away"},
    "default": {"model": models.Failure, "description": "Anything else"},
}
_DESTINATION = "/destinations/{destination}"
_CLIENT = _DESTINATION + "/clients/{client_id}"
_BATCH = _CLIENT + "/claims/{batch_id}"
_STOPPED = _CLIENT + "/stopped/{table}"

ClientId = Annotated[int, Path(ge=0, description="Canal's client id", examples=[1001])]
BatchId = Annotated[int, Path(ge=0, examples=[7])]
Table = Annotated[str, Path(description="`database.table`", examples=["shop.orders"])]


def control_router(server: ServerPort, traffic: Traffic) -> APIRouter:
    router = APIRouter(prefix="/v1", responses=_FAILURES, route_class=_measured(traffic))
    _add_reading(router, server)
    _add_positions(router, server)
    _add_switching(router, server)
    _add_reset(router, server)
    _add_claiming(router, server, traffic)
    _add_batches(router, server)
    _add_stopped(router, server)
    return router


def _add_reading(router: APIRouter, server: ServerPort) -> None:
    @router.get("/destinations", response_model=list[models.Destination])
    def destinations() -> Any:
        """All destinations with their state."""
        return [instance.status() for instance in instances(server).values()]

    @router.get(_DESTINATION, response_model=models.Destination)
    def destination(destination: str) -> Any:
        """State, source, position, store, lag, clients and error of one destination."""
        return server.instance(destination).status()

    @router.get(_DESTINATION + "/tables", response_model=list[models.TableColumns])
    def tables(destination: str) -> Any:
        """The captured tables with their columns."""
        return [schema.to_dict() for schema in server.instance(destination).tables()]

    @router.get(_CLIENT, response_model=models.Client)
    def client(destination: str, client_id: ClientId) -> Any:
        """A client's cursor, sequences, claims and stopped tables."""
        return server.instance(destination).client(client_id)


def _add_positions(router: APIRouter, server: ServerPort) -> None:
    @router.get(_DESTINATION + "/positions", response_model=models.Positions)
    def positions(destination: str) -> Any:
        """Every client's cursor, the source's end, and what lies between, as the source tells it now."""
        return server.positions(destination)


def _add_reset(router: APIRouter, server: ServerPort) -> None:
    @router.post(_DESTINATION + "/reset", response_model=models.ResetAnswer)
    def reset(destination: str, body: models.ResetRequest) -> Any:
        """Sets cursors to a place of the source. By default it only tells what would be read again or skipped."""
        target = Target(_target(body.to), body.client_id, body.moved)
        return server.reset_destination(destination, target, dry_run=body.dry_run)


def _target(to: Any) -> Any:
    """As a plan has it."""
    if isinstance(to, models.Position):
        return EntryPosition.from_dict(to.model_dump())
    return ByGtid(to.gtid) if isinstance(to, models.GtidPlace) else to


def _add_switching(router: APIRouter, server: ServerPort) -> None:
    @router.post(_DESTINATION + "/start", response_model=models.Destination)
    def start(destination: str) -> Any:
        """Starts a destination that was stopped by hand, or is lazy."""
        return server.start_destination(destination)

    @router.post(_DESTINATION + "/stop", response_model=models.Destination)
    def stop(destination: str) -> Any:
        """Stops a destination until it is started, or its configuration changes. Its claims go back."""
        return server.stop_destination(destination)

    @router.post(_DESTINATION + "/reload", response_model=models.Destination)
    def reload(destination: str) -> Any:
        """Begins anew with the configuration as it is now, without waiting for the next scan."""
        return server.reload_destination(destination)


def _add_claiming(router: APIRouter, server: ServerPort, traffic: Traffic) -> None:
    limiter = _Waiters()

    @router.post(
        _CLIENT + "/claims",
        response_model=models.ClaimAnswer,
        responses={204: {"description": "Nothing to claim within the time (Canal's batch -1)"}},
    )
    async def claim(request: Request, destination: str, client_id: ClientId, body: models.ClaimRequest) -> Any:
        """Claims the next range (getWithoutAck): at most about `batch_size` rows, waiting up to `timeout_seconds`."""
        instance = await to_thread.run_sync(server.instance, destination)
        found = await _wait(request, instance, client_id, body, limiter.get())
        traffic.sent(destination, "MESSAGES", empty=found is None)
        return Response(status_code=204) if found is None else found.to_dict()


async def _wait(
    request: Request, instance: InstancePort, client_id: int, body: models.ClaimRequest, limiter: CapacityLimiter
) -> Claim | None:
    lease = _lease(instance, body.lease_seconds)
    deadline = time.monotonic() + body.timeout_seconds
    while True:
        left = max(0.0, deadline - time.monotonic())
        look = partial(instance.claim, client_id, body.batch_size, min(left, _LOOK), body.owner, lease)
        found = await to_thread.run_sync(look, limiter=limiter)
        if await request.is_disconnected():
            if found is not None:
                gone = partial(instance.rollback, client_id, found.batch_id, body.owner, "its claimer went away")
                await to_thread.run_sync(gone)
            return None
        if found is not None or left <= _LOOK:
            return found


def _lease(instance: InstancePort, asked: float | None) -> float:
    """A destination without a configuration refuses the call that follows, whatever the lease."""
    configured = instance.config.lease_seconds if instance.config is not None else 0.0
    return float(configured if asked is None else asked)


def _add_batches(router: APIRouter, server: ServerPort) -> None:
    @router.post(_BATCH + "/ack", response_model=models.AckAnswer)
    def ack(destination: str, client_id: ClientId, batch_id: BatchId, body: models.AckRequest) -> Any:
        """Confirms a claim; claims are acked in order. The cursor is written before this answers."""
        cursor = server.instance(destination).ack(client_id, batch_id, body.owner)
        return {"cursor": None if cursor is None else cursor.to_dict()}

    @router.post(_BATCH + "/renew", response_model=models.RenewAnswer)
    def renew(destination: str, client_id: ClientId, batch_id: BatchId, body: models.RenewRequest) -> Any:
        """Prolongs a claim's lease from now on."""
        instance = server.instance(destination)
        lease = _lease(instance, body.lease_seconds)
        return {"lease_deadline": instance.renew(client_id, batch_id, body.owner, lease)}

    @router.post(_BATCH + "/rollback", response_model=models.RollbackAnswer)
    def rollback(destination: str, client_id: ClientId, batch_id: BatchId, body: models.RollbackRequest) -> Any:
        """Gives back this claim and all later ones."""
        return {"rolled_back": server.instance(destination).rollback(client_id, batch_id, body.owner, body.reason)}

    @router.post(_CLIENT + "/rollback", response_model=models.RollbackAnswer)
    def rollback_all(destination: str, client_id: ClientId, body: models.RollbackRequest) -> Any:
        """Gives back all claims, or with an owner all from its first one on."""
        return {"rolled_back": server.instance(destination).rollback(client_id, None, body.owner, body.reason)}


def _add_stopped(router: APIRouter, server: ServerPort) -> None:
    @router.put(_STOPPED, status_code=204)
    def stop_table(destination: str, client_id: ClientId, table: Table, body: models.StopRequest) -> None:
        """Notes beside the cursor that a table takes no more changes."""
        position = EntryPosition.from_dict(body.position.model_dump())
        server.instance(destination).stop_table(client_id, table, body.reason, body.hint, position)

    @router.delete(_STOPPED, status_code=204)
    def resume_table(destination: str, client_id: ClientId, table: Table) -> None:
        """Lets a stopped table go on."""
        server.instance(destination).resume_table(client_id, table)


class _Waiters:
    """The pool of waiting claimers: made on first use, since it belongs to the running event loop."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None

    def get(self) -> CapacityLimiter:
        if self._limiter is None:
            self._limiter = CapacityLimiter(WAITERS)
        return self._limiter


_PACKETS = {"ack": "CLIENTACK", "renew": "RENEW", "rollback": "CLIENTROLLBACK", "rollback_all": "CLIENTROLLBACK"}


def _measured(traffic: Traffic) -> type[APIRoute]:
    """Routes that count their calls; those of unknown destinations are not, so that labels stay few."""

    class Measured(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def measured(request: Request) -> Response:
                began = time.perf_counter()
                destination = request.path_params.get("destination", "")
                try:
                    answer = await handle(request)
                except UnknownDestination:
                    raise
                except SluiceError as error:
                    traffic.failed(destination, status_of(error))
                    raise
                if destination and self.name in _PACKETS:
                    traffic.sent(destination, _PACKETS[self.name])
                if destination:
                    traffic.took(destination, (time.perf_counter() - began) * 1000)
                return answer

            return measured

    return Measured

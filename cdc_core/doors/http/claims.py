"""The `/v1` calls of clients: claim, ack, renew, roll back, stop and resume a table, report rows that wait.

Claim calls wait for rows in their own thread pool, so they hold up neither each other nor the other calls. When a
claimer disconnects while it waits, its claim is rolled back at once.
"""

from __future__ import annotations

import time
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request, Response

from cdc_core.contract.claim import Claim
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.destination.runner import Destination
from cdc_core.doors.http import answers, requests
from cdc_core.doors.http.paths import BATCH, BLOCKED_LOGS, CLIENT, QUARANTINED, STOPPED, BatchId, ClientId, Table
from cdc_core.doors.traffic import Traffic
from cdc_core.position import EntryPosition
from cdc_core.server.server import CanalServer

WAITERS = 256  # claim calls that may wait at the same time; more of them queue
_LOOK_SECONDS = 1.0  # between two looks whether a waiting claimer is still connected


def add_claims(router: APIRouter, server: CanalServer, traffic: Traffic) -> None:
    _add_subscriptions(router, server)
    _add_claim(router, server, traffic)
    _add_batches(router, server)
    _add_stopped(router, server)


def _add_subscriptions(router: APIRouter, server: CanalServer) -> None:
    @router.put(CLIENT, response_model=answers.Client)
    def subscribe(destination: str, client_id: ClientId) -> Any:
        """Subscribes a client, from the newest transaction on; one that is subscribed stays as it is."""
        return server.destination(destination).service().subscribe(client_id).to_dict()

    @router.delete(CLIENT, status_code=204)
    def unsubscribe(destination: str, client_id: ClientId) -> None:
        """Ends a subscription: the client's cursor is forgotten and its claims are void."""
        server.destination(destination).service().unsubscribe(client_id)

    @router.get(CLIENT + "/rules", response_model=answers.RulesAnswer)
    def rules(destination: str, client_id: ClientId) -> Any:
        """What the client's lake sees of its tables."""
        return {"rules": server.destination(destination).service().rules_of(client_id)}

    @router.put(CLIENT + "/rules", status_code=204)
    def set_rules(destination: str, client_id: ClientId, body: requests.RulesRequest) -> None:
        """Sets what the client's lake sees of its tables, from its next claim on. Kept before this answers."""
        server.destination(destination).service().set_rules(client_id, body.rules)


def _add_claim(router: APIRouter, server: CanalServer, traffic: Traffic) -> None:
    waiters = _Waiters()

    @router.post(
        CLIENT + "/claims",
        response_model=answers.ClaimAnswer,
        responses={204: {"description": "Nothing to claim within the time (Canal's batch -1)"}},
    )
    async def claim(request: Request, destination: str, client_id: ClientId, body: requests.ClaimRequest) -> Any:
        """Claims the next range (getWithoutAck): about `batch_size` rows at most, waiting up to `timeout_seconds`."""
        port = await to_thread.run_sync(server.destination, destination)
        found = await _wait(request, port, client_id, body, waiters.limiter())
        traffic.sent(destination, "MESSAGES", empty=found is None)
        return Response(status_code=204) if found is None else await to_thread.run_sync(answers.large, found.to_dict)


async def _wait(
    request: Request,
    destination: Destination,
    client_id: int,
    body: requests.ClaimRequest,
    limiter: CapacityLimiter,
) -> Claim | None:
    lease = _lease(destination, body.lease_seconds)

    def look(seconds: float) -> Claim | None:
        return destination.service().claim(client_id, body.batch_size, seconds, body.owner, lease)

    deadline = time.monotonic() + body.timeout_seconds
    while True:
        left = max(0.0, deadline - time.monotonic())
        found = await to_thread.run_sync(look, min(left, _LOOK_SECONDS), limiter=limiter)
        if await request.is_disconnected():
            if found is not None:
                await to_thread.run_sync(_give_back, destination, found)
            return None
        if found is not None or left <= _LOOK_SECONDS:
            return found


def _give_back(destination: Destination, claim: Claim) -> None:
    destination.service().rollback(claim.client_id, claim.batch_id, claim.owner, "its claimer disconnected")


def _lease(destination: Destination, requested: float | None) -> float:
    """The lease in seconds: as requested, else as configured."""
    return destination.config.lease_seconds if requested is None else requested


class _Waiters:
    """Bounds the claim calls that wait. The limiter belongs to the running event loop, so the first call makes it."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None

    def limiter(self) -> CapacityLimiter:
        if self._limiter is None:
            self._limiter = CapacityLimiter(WAITERS)
        return self._limiter


def _add_batches(router: APIRouter, server: CanalServer) -> None:
    @router.post(BATCH + "/ack", response_model=answers.AckAnswer)
    def ack(destination: str, client_id: ClientId, batch_id: BatchId, body: requests.AckRequest) -> Any:
        """Acks a claim, in the order of the claims. The cursor is written before this answers, and with
        it the end of the stops of the tables that are `mended`."""
        cursor = server.destination(destination).service().ack(client_id, batch_id, body.owner, body.mended)
        return {"cursor": None if cursor is None else cursor.to_dict()}

    @router.post(BATCH + "/renew", response_model=answers.RenewAnswer)
    def renew(destination: str, client_id: ClientId, batch_id: BatchId, body: requests.RenewRequest) -> Any:
        """Renews a claim's lease from now on."""
        port = server.destination(destination)
        lease = _lease(port, body.lease_seconds)
        return {"lease_deadline": port.service().renew(client_id, batch_id, body.owner, lease)}

    @router.post(BATCH + "/rollback", response_model=answers.RollbackAnswer)
    def rollback(destination: str, client_id: ClientId, batch_id: BatchId, body: requests.RollbackRequest) -> Any:
        """Rolls back this claim and all later ones."""
        service = server.destination(destination).service()
        return {"rolled_back": service.rollback(client_id, batch_id, body.owner, body.reason)}

    @router.post(CLIENT + "/rollback", response_model=answers.RollbackAnswer)
    def rollback_all(destination: str, client_id: ClientId, body: requests.RollbackRequest) -> Any:
        """Rolls back all claims, or with an owner all from its first one on."""
        service = server.destination(destination).service()
        return {"rolled_back": service.rollback(client_id, None, body.owner, body.reason)}


def _add_stopped(router: APIRouter, server: CanalServer) -> None:
    @router.put(QUARANTINED, status_code=204)
    def report_quarantined(destination: str, client_id: ClientId, body: requests.QuarantinedRequest) -> None:
        """Notes with the cursor how many rows of tables wait in their quarantines."""
        service = server.destination(destination).service()
        service.report_quarantined(client_id, body.rows, whole=body.whole)

    @router.put(BLOCKED_LOGS, status_code=204)
    def report_blocked(destination: str, client_id: ClientId, body: requests.BlockedRequest) -> None:
        """Notes with the cursor which tables' change logs wait, as rows break what is expected of them."""
        tables = [StoppedTable(one.table, one.reason, one.hint, None) for one in body.tables]
        server.destination(destination).service().report_blocked(client_id, tables)

    @router.put(STOPPED, status_code=204)
    def stop_table(destination: str, client_id: ClientId, table: Table, body: requests.StopRequest) -> None:
        """Notes with the cursor that a table takes no more changes."""
        position = EntryPosition.from_dict(body.position.model_dump())
        passed = position if body.copy_needed else None
        stopped = StoppedTable(table, body.reason, body.hint, position, passed, body.copy_needed, body.kind)
        server.destination(destination).service().stop_table(client_id, stopped)

    @router.delete(STOPPED, status_code=204)
    def lift_stop(
        destination: str, client_id: ClientId, table: Table, body: requests.LiftRequest | None = None
    ) -> None:
        """Lets a stopped table take changes again. Refused when it would miss changes that were acked meanwhile."""
        copied = body.copied if body else None
        position = EntryPosition.from_dict(copied.model_dump()) if copied else None
        owner = body.owner if body and body.owner else ""
        server.destination(destination).service().lift_stop(client_id, table, position, owner)

"""Claims given back by hand."""

from __future__ import annotations

from cdc_core.client.connector import Connector
from cdc_core.errors import SessionError
from orchestration.verbs.access import Access
from orchestration.verbs.orders import WHOLE, Rollback
from orchestration.verbs.report import Done, Report


def run(order: Rollback, at: Access, report: Report) -> None:
    with at.connect() as connector:
        report.one(WHOLE, lambda: _given_back(connector, order.batch_id, report.reason), "store")


def _given_back(connector: Connector, batch_id: int | None, reason: str) -> Done:
    owner = None if batch_id is None else _owner(connector, batch_id)
    batches = ", ".join(map(str, connector.rollback(owner=owner, reason=reason))) or "nothing was claimed"
    return Done(f"given back: {batches}", {"batches": batches})


def _owner(connector: Connector, batch_id: int) -> str:
    """Returns the owner of a batch. Raises SessionError when nobody holds it."""
    claims = connector.client_status().claims
    for claim in claims:
        if claim.batch_id == batch_id:
            return claim.owner
    raise SessionError(
        f"batch {batch_id} is not claimed",
        place=connector.destination,
        hint=f"Claimed now: {', '.join(str(claim.batch_id) for claim in claims) or 'nothing'}.",
    )

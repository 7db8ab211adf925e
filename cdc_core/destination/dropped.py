"""Tells the log what clients had of a transaction that the source lost."""

from __future__ import annotations

import structlog

from cdc_core.session.state import Dropped

log = structlog.get_logger(__name__)


def tell(destination: str, dropped: Dropped) -> None:
    for client, batches in dropped.claims.items():
        log.warning("the source lost a transaction", destination=destination, client=client, rolled_back=batches)
    for client, position in dropped.acked.items():
        log.error(
            "the source lost a transaction of which a part was acked",
            destination=destination,
            client=client,
            place=str(position),
            hint="The lake has rows that the source rolled back: compare them with sluice verify.",
        )

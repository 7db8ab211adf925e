"""Numbers about one destination's store and sessions: backlog, lag, delays. Reads alone; the caller holds the lock."""

from __future__ import annotations

from typing import Any

from cdc_core.position import EntryPosition
from cdc_core.session.session import Session
from cdc_core.store.cursor import Cursor
from cdc_core.store.ring import Ring


def slowest(ring: Ring) -> tuple[Cursor, Cursor]:
    """get and ack of the clients that are furthest behind."""
    marks = ring.clients.values()
    return min((m.get for m in marks), default=Cursor()), min((m.ack for m in marks), default=Cursor())


def store_figures(ring: Ring) -> dict[str, Any]:
    get, ack = slowest(ring)
    return {
        "put": ring.put.sequence,
        "get": get.sequence,
        "ack": ack.sequence,
        "items": ring.items,
        "bytes": ring.nbytes,
        "capacity_items": ring.capacity_items,
        "capacity_bytes": ring.capacity_bytes,
    }


def lag_seconds(ring: Ring, now: float) -> float:
    """Age of the oldest transaction that some client has not acked; 0 when all is acked."""
    oldest = [commit for client in ring.clients if (commit := ring.oldest_commit(client)) is not None]
    return max((max(0.0, now - _seconds(commit)) for commit in oldest), default=0.0)


def session_metrics(ring: Ring, session: Session, now: float) -> dict[str, float | None]:
    """What `/metrics` shows of store and sessions; None for what is not known."""
    get, ack = slowest(ring)
    clients = session.clients.values()
    reads, cursors = [c.read for c in clients], [c.cursor for c in clients]
    return {
        "subscriptions": len(session.clients),
        "transactions": ring.transactions,
        "store_produce_seq": ring.put.sequence,
        "store_consume_seq": ack.sequence,
        "store_produce_mem": ring.put.nbytes,
        "store_consume_mem": ack.nbytes,
        "put_rows": ring.put.rows,
        "get_rows": get.rows,
        "ack_rows": ack.rows,
        "put_delay": _delay([ring.last_commit], now),
        "get_delay": _delay(reads, now),
        "ack_delay": _delay(cursors, now),
        "cursor_age_seconds": _age(cursors, now),
        "unacked_batches": sum(len(c.batches) for c in clients),
        "lag_seconds": lag_seconds(ring, now),
    }


def _age(positions: list[EntryPosition | None], now: float) -> float | None:
    """Seconds since the oldest of these was committed."""
    times = [_seconds(p) for p in positions if p is not None and p.timestamp]
    return max(0.0, now - min(times)) if times else None


def _delay(positions: list[EntryPosition | None], now: float) -> float | None:
    age = _age(positions, now)
    return None if age is None else age * 1000


def _seconds(position: EntryPosition) -> float:
    return (position.timestamp or 0) / 1000

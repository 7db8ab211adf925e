"""Verbs as commands, at a shop's service, lake and Spark."""

from __future__ import annotations

from pathlib import Path

from orchestration.commands.verb import access_of, run
from orchestration.verbs.orders import Order
from tests.support.shop import Shop


def commanded(shop: Shop, tmp_path: Path, order: Order) -> int:
    """Runs the order, for a reason. Returns 1 if a table is not as it should be."""
    url, remote = shop.connector.http_url, shop.lake.sessions.remote
    at = access_of("shop", lake=str(tmp_path / "lake"), conf=tmp_path / "conf", spark=remote, service=url)
    return run(order, at, as_json=True, reason="a bad release")

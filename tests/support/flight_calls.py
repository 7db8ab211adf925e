"""Calls of the Flight door, each over a connection of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from cdc_core.client.changes import FlightRows, TableRead
from cdc_core.contract.claim import Claim


def flight_info(
    url: str,
    claim: Claim,
    table: str,
    *,
    mode: str = "net",
    after: int | None = None,
    splits: int = 1,
    token: str | None = None,
    ca: str = "",
    timeout_seconds: float = 600.0,
) -> TableRead:
    """`FlightRows.info` over a connection of its own."""
    with FlightRows(url, token, ca) as rows:
        return rows.info(claim, table, mode=mode, after=after, splits=splits, timeout_seconds=timeout_seconds)


def read_split(
    url: str, ticket: bytes, *, token: str | None = None, ca: str = "", timeout_seconds: float | None = None
) -> Iterator[pa.RecordBatch]:
    """`FlightRows.split` over a connection of its own."""
    with FlightRows(url, token, ca) as rows:
        yield from rows.split(ticket, timeout_seconds=timeout_seconds)

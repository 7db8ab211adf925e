"""A claim's rows over Arrow Flight: plan a table's read, then pull its splits, each on its own connection.

Needs only pyarrow. Promises that a stream which ends without an error is whole; keeps nothing, retries nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import flight

from cdc_core.client.failures import error_from, unavailable
from cdc_core.errors import SluiceError
from cdc_core.schema.table import TableSchema
from cdc_core.session.claim import Claim

_OPTIONS = [("grpc.enable_http_proxy", 0)]  # a proxy of the environment is not meant for rows


@dataclass(frozen=True, slots=True)
class TableRead:
    """How to read one table of a claim: `tickets` are opaque, one for each split that is not empty.

    `counts` is the service's plan: rows, upserts, deletes, raw_inserts, raw_updates, raw_deletes, insert_only,
    min_key, max_key.
    """

    schema: pa.Schema
    table: TableSchema
    counts: dict[str, Any]
    rows: int
    tickets: tuple[bytes, ...]


def flight_info(
    url: str,
    claim: Claim,
    table: str,
    *,
    mode: str = "net",
    after: int | None = None,
    splits: int = 1,
    token: str | None = None,
    timeout_seconds: float = 600.0,
) -> TableRead:
    """Asks the service to plan `table` (`database.table`) of the claim; rows up to version `after` are left out."""
    command = {
        "destination": claim.destination,
        "client_id": claim.client_id,
        "batch_id": claim.batch_id,
        "table": table,
        "mode": mode,
        "after": after,
        "splits": splits,
    }
    descriptor = flight.FlightDescriptor.for_command(json.dumps(command).encode())
    with _answers(url), flight.connect(url, generic_options=_OPTIONS) as client:
        info = client.get_flight_info(descriptor, _call(token, timeout_seconds))
    metadata = info.schema.metadata or {}
    return TableRead(
        schema=info.schema,
        table=TableSchema.from_dict(json.loads(metadata[b"sluice.table"])),
        counts=json.loads(metadata[b"sluice.plan"]),
        rows=info.total_records,
        tickets=tuple(endpoint.ticket.ticket for endpoint in info.endpoints),
    )


def read_split(
    url: str, ticket: bytes, *, token: str | None = None, timeout_seconds: float | None = None
) -> Iterator[pa.RecordBatch]:
    """The record batches of one split. Closing the iterator ends the call."""
    with _answers(url), flight.connect(url, generic_options=_OPTIONS) as client:
        stream = client.do_get(flight.Ticket(ticket), _call(token, timeout_seconds))
        try:
            for chunk in stream:
                yield chunk.data
        finally:
            stream.cancel()


def changes(
    url: str,
    claim: Claim,
    table: str,
    *,
    mode: str = "net",
    after: int | None = None,
    splits: int = 1,
    token: str | None = None,
) -> pa.RecordBatchReader:
    """All of a table's rows in a claim, one split after the other."""
    read = flight_info(url, claim, table, mode=mode, after=after, splits=splits, token=token)
    batches = (batch for ticket in read.tickets for batch in read_split(url, ticket, token=token))
    return pa.RecordBatchReader.from_batches(read.schema, batches)


def _call(token: str | None, timeout_seconds: float | None) -> flight.FlightCallOptions:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    return flight.FlightCallOptions(timeout=timeout_seconds, headers=headers)


@contextmanager
def _answers(url: str) -> Iterator[None]:
    """Turns Flight's errors into ours: the service's own come with their JSON beside the message."""
    try:
        yield
    except pa.ArrowException as error:
        if told := getattr(error, "extra_info", b""):
            raise error_from(json.loads(told)) from error
        if isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError):
            raise unavailable(url, error) from error
        raise SluiceError(f"the read failed: {error}", place=url, hint="The service's log has the details.") from error

"""A claim's rows over Arrow Flight: plan a table's read, then pull its splits.

`Rows` does both over one connection, which several threads may use; the functions open one for each call.

Needs only pyarrow. Promises that a stream which ends without an error is whole, and that one whose server stalls for
minutes ends with an error; keeps nothing, retries nothing.
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

_OPTIONS = [
    ("grpc.enable_http_proxy", 0),  # a proxy of the environment is not meant for rows
    ("grpc.keepalive_time_ms", 310_000),  # a host that stalls keeps its connections; servers suffer a ping in 300 s
    ("grpc.http2.ping_timeout_ms", 20_000),
]


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


class Rows:
    """The service's Flight door at `url`, until `close`. A connection that breaks is made again by the next call."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self._headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        with _answers(url):
            self._client = flight.connect(url, generic_options=_OPTIONS)

    def __repr__(self) -> str:
        return f"<Rows {self.url}>"

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def info(
        self,
        claim: Claim,
        table: str,
        *,
        mode: str = "net",
        after: int | None = None,
        splits: int = 1,
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
        with _answers(self.url):
            info = self._client.get_flight_info(descriptor, self._call(timeout_seconds))
        metadata = info.schema.metadata or {}
        return TableRead(
            schema=info.schema,
            table=TableSchema.from_dict(json.loads(metadata[b"sluice.table"])),
            counts=json.loads(metadata[b"sluice.plan"]),
            rows=info.total_records,
            tickets=tuple(endpoint.ticket.ticket for endpoint in info.endpoints),
        )

    def split(self, ticket: bytes, *, timeout_seconds: float | None = None) -> Iterator[pa.RecordBatch]:
        """The record batches of one split. Closing the iterator ends the call."""
        with _answers(self.url):
            stream = self._client.do_get(flight.Ticket(ticket), self._call(timeout_seconds))
            try:
                for chunk in stream:
                    yield chunk.data
            finally:
                stream.cancel()

    def _call(self, timeout_seconds: float | None) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=timeout_seconds, headers=self._headers)


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
    """`Rows.info` over a connection of its own."""
    with Rows(url, token) as rows:
        return rows.info(claim, table, mode=mode, after=after, splits=splits, timeout_seconds=timeout_seconds)


def read_split(
    url: str, ticket: bytes, *, token: str | None = None, timeout_seconds: float | None = None
) -> Iterator[pa.RecordBatch]:
    """`Rows.split` over a connection of its own."""
    with Rows(url, token) as rows:
        yield from rows.split(ticket, timeout_seconds=timeout_seconds)


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
    rows = Rows(url, token)
    try:
        read = rows.info(claim, table, mode=mode, after=after, splits=splits)
    except BaseException:
        rows.close()
        raise
    return pa.RecordBatchReader.from_batches(read.schema, _one_by_one(rows, read.tickets))


def _one_by_one(rows: Rows, tickets: tuple[bytes, ...]) -> Iterator[pa.RecordBatch]:
    with rows:
        for ticket in tickets:
            yield from rows.split(ticket)


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

"""A claim's rows over Arrow Flight: plan a table's read, then pull its splits.

`FlightRows` does both over one connection, which several threads may use; the functions open a connection for each
call. A stream that ends without an error is complete. A stream whose server stalls ends with an error after minutes.
A call that no server takes is repeated for a moment, as by HTTP: a door listens again when its certificate is renewed.
A stream that has begun is not repeated. Needs only pyarrow.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import flight

from cdc_core.client.failures import unavailable
from cdc_core.client.trust import roots_for
from cdc_core.contract.claim import Claim
from cdc_core.errors import SluiceError, error_from
from cdc_core.schema.table import TableSchema

T = TypeVar("T")

_KEPT = 4  # connections of a process
_PAUSES = (0.1, 0.4, 1.0)  # seconds before each repetition
_OPTIONS = [
    ("grpc.enable_http_proxy", 0),  # the environment's proxy is not meant for rows
    ("grpc.keepalive_time_ms", 310_000),  # notices a stalled host; servers allow one ping in 300 s
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.initial_reconnect_backoff_ms", 50),  # else a call soon after a broken one fails unsent
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
]


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The command of get_flight_info: which table of which claim, `mode` net or changes, without the rows up to version
    `after`, in how many splits."""

    destination: str
    client_id: int
    batch_id: int
    table: str
    mode: str = "net"
    after: int | None = None
    splits: int = 1


@dataclass(frozen=True, slots=True)
class PlanCounts:
    """What the service counted for a plan: the metadata `sluice.plan` (docs/decoding.md, "Net changes").

    `raw_*` are the source's operations, `rows`, `upserts` and `deletes` what is handed out of them. `min_key` and
    `max_key` bound a primary key of one integer. `partial`: images leave columns out; `lacking`: also if only images
    that remove rows do. `gained`: keys that have a row now and had none before the range; `lost`: the other way round;
    `replaced`: keys that had a row and have another one now; None without a key. `moved`: rows that have another key
    now, and take values from the row that the lake has of the earlier one.
    """

    rows: int = 0
    upserts: int = 0
    deletes: int = 0
    raw_inserts: int = 0
    raw_updates: int = 0
    raw_deletes: int = 0
    insert_only: bool = False
    min_key: int | None = None
    max_key: int | None = None
    partial: bool = False
    lacking: bool = False
    gained: int | None = None
    lost: int | None = None
    replaced: int | None = None
    moved: int = 0

    @property
    def raw(self) -> int:
        """The source's operations."""
        return self.raw_inserts + self.raw_updates + self.raw_deletes


@dataclass(frozen=True, slots=True)
class TableRead:
    """How to read one table of a claim. `tickets` are opaque, one for each split that is not empty."""

    schema: pa.Schema
    table: TableSchema
    counts: PlanCounts
    rows: int
    tickets: tuple[bytes, ...]


class FlightRows:
    """The service's Flight door at `url`, until `close`. After a broken connection the next call opens another. `ca`:
    the authorities of a door with TLS as PEM text, without it those of the system."""

    def __init__(
        self, url: str, token: str | None = None, ca: str = "", sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.url, self._sleep = url, sleep
        self._headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        with _answers(url):
            self._client = flight.connect(url, generic_options=_OPTIONS, tls_root_certs=roots_for(url, ca))

    def __repr__(self) -> str:
        return f"<Rows {self.url}>"

    def __enter__(self) -> FlightRows:
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
        """Plans the read of `table` (`database.table`) in the claim, without rows up to version `after`."""
        request = PlanRequest(claim.destination, claim.client_id, claim.batch_id, table, mode, after, splits)
        return self.plan(request, timeout_seconds=timeout_seconds)

    def plan(self, request: PlanRequest, *, timeout_seconds: float = 600.0) -> TableRead:
        """Plans the read that `request` asks for."""
        descriptor = flight.FlightDescriptor.for_command(json.dumps(asdict(request)).encode())
        with _answers(self.url):
            info = self._taken(lambda: self._client.get_flight_info(descriptor, self._call(timeout_seconds)))
        metadata = info.schema.metadata or {}
        return TableRead(
            schema=info.schema,
            table=TableSchema.from_dict(json.loads(metadata[b"sluice.table"])),
            counts=PlanCounts(**json.loads(metadata[b"sluice.plan"])),
            rows=info.total_records,
            tickets=tuple(endpoint.ticket.ticket for endpoint in info.endpoints),
        )

    def split(self, ticket: bytes, *, timeout_seconds: float | None = None) -> Iterator[pa.RecordBatch]:
        """The record batches of one split. Closing the iterator cancels the call."""
        with _answers(self.url):
            stream, first = self._taken(lambda: self._begun(ticket, timeout_seconds))
            try:
                if first is not None:
                    yield first.data
                    for chunk in stream:
                        yield chunk.data
            finally:
                stream.cancel()

    def _begun(self, ticket: bytes, timeout_seconds: float | None) -> tuple[Any, Any]:
        """A stream and its first chunk, None for an empty one."""
        stream = self._client.do_get(flight.Ticket(ticket), self._call(timeout_seconds))
        try:
            return stream, next(iter(stream), None)
        except BaseException:
            stream.cancel()
            raise

    def _taken(self, call: Callable[[], T]) -> T:
        """The call's answer. One that a server refuses is not made again."""
        for pause in _PAUSES:
            try:
                return call()
            except (flight.FlightUnavailableError, flight.FlightCancelledError) as error:
                if error.extra_info:
                    raise
                self._sleep(pause)
        return call()

    def _call(self, timeout_seconds: float | None) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=timeout_seconds, headers=self._headers)


@dataclass(frozen=True, slots=True)
class RowsDoor:
    """Where a service hands out rows: the `url` of its Flight door, the `token` that opens it, "" for none, and the
    authorities of its certificate as PEM text, "" for those of the system. `info` and `split` share one connection in a
    process, which stays open until a call fails: to open one costs more than the call."""

    url: str
    token: str = field(default="", repr=False)
    ca: str = field(default="", repr=False)

    def connect(self) -> FlightRows:
        return FlightRows(self.url, self.token or None, self.ca)

    def info(
        self, claim: Claim, table: str, *, mode: str = "net", after: int | None = None, splits: int = 1
    ) -> TableRead:
        """`FlightRows.info` over the kept connection."""
        with _CONNECTIONS.of(self) as rows:
            return rows.info(claim, table, mode=mode, after=after, splits=splits)

    def split(self, ticket: bytes, *, timeout_seconds: float | None = None) -> Iterator[pa.RecordBatch]:
        """`FlightRows.split` over the kept connection."""
        with _CONNECTIONS.of(self) as rows:
            yield from rows.split(ticket, timeout_seconds=timeout_seconds)


class _KeptConnections:
    """A connection for each door, as far as they are among the last `size` ones. A connection whose call failed is not
    used again: its server may be one that the door's address no longer leads to. Calls that it still has go on."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[RowsDoor, FlightRows] = OrderedDict()

    def __repr__(self) -> str:
        return f"<KeptConnections {len(self._kept)} of {self._size}>"

    @contextmanager
    def of(self, door: RowsDoor) -> Iterator[FlightRows]:
        """The connection for one call."""
        with self._lock:
            rows = self._kept[door] = self._kept.get(door) or door.connect()
            self._kept.move_to_end(door)
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
        try:
            yield rows
        except SluiceError:
            with self._lock:
                if self._kept.get(door) is rows:
                    del self._kept[door]
            raise


_CONNECTIONS = _KeptConnections(_KEPT)


def changes(
    url: str,
    claim: Claim,
    table: str,
    *,
    mode: str = "net",
    after: int | None = None,
    splits: int = 1,
    token: str | None = None,
    ca: str = "",
) -> pa.RecordBatchReader:
    """All rows of a table in a claim, one split after the other."""
    rows = FlightRows(url, token, ca)
    try:
        read = rows.info(claim, table, mode=mode, after=after, splits=splits)
    except BaseException:
        rows.close()
        raise
    return pa.RecordBatchReader.from_batches(read.schema, _one_by_one(rows, read.tickets))


def _one_by_one(rows: FlightRows, tickets: tuple[bytes, ...]) -> Iterator[pa.RecordBatch]:
    with rows:
        for ticket in tickets:
            yield from rows.split(ticket)


@contextmanager
def _answers(url: str) -> Iterator[None]:
    """Raises Flight's errors as ours: the service's own errors come with their JSON with the message."""
    try:
        yield
    except pa.ArrowException as error:
        if parts := getattr(error, "extra_info", b""):
            raise error_from(json.loads(parts)) from error
        if isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError):
            raise unavailable(url, error) from error
        raise SluiceError(
            f"the read failed: {error}", place=url, hint="See the service's log for the details."
        ) from error

"""The Flight door: a claim's rows as Arrow, planned once a table, streamed split by split.

A stream holds one record batch at a time, so its memory does not grow with the table. A ticket is refused once its
claim is gone; a stream that began before goes on, since what applies it is fenced by versions. Errors carry their JSON
beside the message, so that a client gets back what was raised here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import structlog
from pyarrow import flight

from cdc_core.doors.access import check_token
from cdc_core.doors.address import bracketed, listen
from cdc_core.doors.failures import unexpected
from cdc_core.doors.plans import Plans, Read, read_command, read_ticket
from cdc_core.doors.ports import ServerPort
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import AccessDenied, ConfigError, SluiceError, SourceUnavailable, TableStopped

if TYPE_CHECKING:
    from cdc_core.binlog.plan import Plan

T = TypeVar("T")

_SWEEP_SECONDS = 1.0  # how long the plan of an acked range may be kept
_STOP_SECONDS = 5.0
_CLIP = 1000  # characters of an error: gRPC tells it in headers, which may have 8 KB

log = structlog.get_logger(__name__)


class FlightDoor:
    """Serves `server` on `host:port` between `start` and `stop`; port 0 takes a free one."""

    def __init__(
        self, server: ServerPort, host: str, port: int, token: str | None = None, traffic: Traffic | None = None
    ) -> None:
        self.host = host
        self.port = port
        self._token = token
        self._rows = _Rows(server, traffic or Traffic())
        self._flight: _Flight | None = None
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"<FlightDoor {self.url}{'' if self._flight else ' closed'}>"

    @property
    def url(self) -> str:
        return f"grpc://{bracketed(self.host)}:{self.port}"

    def start(self) -> None:
        """Returns when calls are answered. Raises ConfigError when the port cannot be had."""
        listen(self.host, self.port, "sluice.flight.port").close()  # gRPC would not say why it cannot
        try:
            self._flight = _Flight(self._rows, self.url, self._token)
        except pa.ArrowException as error:
            raise ConfigError(
                f"cannot listen: {error}", place=self.url, hint="Set sluice.flight.port to a free port."
            ) from error
        self.port = self._flight.port
        self._stopped.clear()
        threading.Thread(target=self._sweep, name="flight plans", daemon=True).start()

    def stop(self) -> None:
        """Ends within seconds also when a client leaves its stream unread."""
        if self._flight is None:
            return
        self._stopped.set()
        ending = threading.Thread(target=self._flight.shutdown, name="flight door's end", daemon=True)
        ending.start()
        ending.join(_STOP_SECONDS)
        self._flight = None

    def _sweep(self) -> None:
        while not self._stopped.wait(_SWEEP_SECONDS):
            self._rows.plans.sweep()


class _Rows:
    """What is behind the calls, in plain values. The kernels that read rows are loaded with the first call, or before:
    a source is connected sooner without them."""

    def __init__(self, server: ServerPort, traffic: Traffic) -> None:
        self._server = server
        self._traffic = traffic
        self.plans = Plans(self._plan, self._slices)

    def info(self, read: Read) -> tuple[pa.Schema, Any, list[bytes]]:
        """The schema with its metadata, the plan, and a ticket for each split."""
        with self._noted(read, read.table):
            plan = self.plans.get(read)
            schema = plan.arrow_schema  # a type that is not known shows here
        metadata = {"sluice.table": json.dumps(plan.schema.to_dict()), "sluice.plan": json.dumps(plan.to_dict())}
        return schema.with_metadata(metadata), plan, [read.ticket(at) for at in range(len(plan.splits))]

    def stream(self, ticket: bytes) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        from cdc_core.binlog import net

        read, split = read_ticket(ticket)
        plan = self.plans.get(read)
        if split >= len(plan.splits):
            raise ConfigError("the plan has no such split", place=f"split {split}", hint="Ask for flight info again.")
        config = self._server.instance(read.destination).config
        batches = net.read(replace(plan, slices=self._slices(read)), split, zero_dates=config.zero_dates)
        return plan.arrow_schema, self._sent(read, f"{read.table}, part {split + 1} of {read.splits}", batches)

    def _sent(self, read: Read, part: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self._noted(read, part):
            for batch in batches:
                self._traffic.sent(read.destination, "ROWS", batch.get_total_buffer_size())
                yield batch

    @contextmanager
    def _noted(self, read: Read, part: str) -> Iterator[None]:
        """Rows that cannot be read are the destination's trouble, not only the reader's; a table that stops is not."""
        instance = self._server.instance(read.destination)
        try:
            yield
        except TableStopped:
            raise
        except Exception as error:
            instance.note_read(read.client_id, read.batch_id, part, error)
            raise
        instance.note_read(read.client_id, read.batch_id, part, None)

    def _plan(self, read: Read) -> Plan:
        from cdc_core.binlog import net

        plan = net.plan_net if read.mode == net.NET else net.plan_changes
        registry = self._server.instance(read.destination).registry
        made = plan(self._slices(read), registry, read.table, read.after, read.splits)
        return replace(made, slices=())  # what is kept must not hold the ring's blocks beyond the ack

    def _slices(self, read: Read) -> Any:
        return self._server.instance(read.destination).slices(read.client_id, read.batch_id)


class _Flight(flight.FlightServerBase):  # type: ignore[misc]
    """The calls as Flight has them."""

    def __init__(self, rows: _Rows, location: str, token: str | None) -> None:
        self._rows = rows
        super().__init__(location, middleware={"token": _Guard(token)} if token else None)

    def get_flight_info(self, _: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        schema, plan, tickets = _told(lambda: self._rows.info(read_command(descriptor.command or b"")))
        endpoints = [flight.FlightEndpoint(ticket, []) for ticket in tickets]
        return flight.FlightInfo(schema, descriptor, endpoints, plan.rows, -1)

    def get_schema(self, _: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        return flight.SchemaResult(_told(lambda: self._rows.info(read_command(descriptor.command or b"")))[0])

    def do_get(self, _: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        schema, batches = _told(lambda: self._rows.stream(ticket.ticket))
        return flight.GeneratorStream(schema, _told_of(batches))


class _Guard(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Asks every call for the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def start_call(self, _: flight.CallInfo, headers: dict[str, list[str]]) -> None:
        given = headers.get("authorization", [])
        _told(lambda: check_token(self._token, given[0] if given else None))


def _told(call: Callable[[], T]) -> T:
    """The call's answer, or its error as Flight's."""
    try:
        return call()
    except Exception as error:
        raise _as_flight(error) from error


def _told_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except Exception as error:
        raise _as_flight(error) from error


def _as_flight(error: Exception) -> flight.FlightError:
    if not isinstance(error, SluiceError):
        log.error("a Flight call failed", exc_info=error)
        told = unexpected(error)
        return flight.FlightInternalError(told["message"], json.dumps(told).encode())
    log.warning("a Flight call was refused", **error.as_dict())
    kind = flight.FlightServerError
    if isinstance(error, AccessDenied):
        kind = flight.FlightUnauthenticatedError
    elif isinstance(error, SourceUnavailable):
        kind = flight.FlightUnavailableError
    told = {key: value[:_CLIP] for key, value in error.as_dict().items()}
    return kind(str(error)[:_CLIP], json.dumps(told).encode())

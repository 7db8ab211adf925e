"""The Flight door: its life, its calls as Flight has them, and our errors as Flight's.

Errors carry their JSON beside the message, so a client raises what was raised here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa
import structlog
from pyarrow import flight

from cdc_core.doors.access import check_token
from cdc_core.doors.address import bracketed, listen
from cdc_core.doors.errors import unexpected
from cdc_core.doors.flight.rows import Rows
from cdc_core.doors.flight.tickets import read_command
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import AccessDenied, ConfigError, SluiceError, SourceUnavailable
from cdc_core.server.server import CanalServer

T = TypeVar("T")

_SWEEP_SECONDS = 1.0  # how long the plan of an acked range may stay
_STOP_SECONDS = 5.0
_CLIP = 1000  # characters of an error: gRPC sends it in headers, which may have 8 KB

log = structlog.get_logger(__name__)


class FlightDoor:
    """Serves `server` on `host:port` between `start` and `stop`; port 0 binds a free port."""

    def __init__(
        self, server: CanalServer, host: str, port: int, token: str | None = None, traffic: Traffic | None = None
    ) -> None:
        self.host = host
        self.port = port
        self._token = token
        self._rows = Rows(server, traffic or Traffic(server.has))
        self._flight: _Flight | None = None
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"<FlightDoor {self.url}{'' if self._flight else ' closed'}>"

    @property
    def url(self) -> str:
        return f"grpc://{bracketed(self.host)}:{self.port}"

    def start(self) -> None:
        """Returns when the door answers calls. Raises ConfigError when the port cannot be bound."""
        listen(self.host, self.port, "sluice.flight.port").close()  # gRPC does not say why it cannot listen
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
        """Ends within seconds, also when a client does not read its stream."""
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


class _Flight(flight.FlightServerBase):  # type: ignore[misc]
    """Flight's server: each call translates to one of `rows`."""

    def __init__(self, rows: Rows, location: str, token: str | None) -> None:
        self._rows = rows
        super().__init__(location, middleware={"token": _Guard(token)} if token else None)

    def get_flight_info(self, _: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        info = _as_flight(lambda: self._rows.info(read_command(descriptor.command or b"")))
        endpoints = [flight.FlightEndpoint(ticket, []) for ticket in info.tickets]
        return flight.FlightInfo(info.schema, descriptor, endpoints, info.rows, -1)

    def get_schema(self, _: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        return flight.SchemaResult(_as_flight(lambda: self._rows.info(read_command(descriptor.command or b""))).schema)

    def do_get(self, _: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        schema, batches = _as_flight(lambda: self._rows.stream(ticket.ticket))
        return flight.GeneratorStream(schema, _batches_as_flight(batches))


class _Guard(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses calls without the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def start_call(self, _: flight.CallInfo, headers: dict[str, list[str]]) -> None:
        given = headers.get("authorization", [])
        _as_flight(lambda: check_token(self._token, given[0] if given else None))


def _as_flight(call: Callable[[], T]) -> T:
    """The call's answer. Raises its error as Flight's."""
    try:
        return call()
    except Exception as error:
        raise _flight_error(error) from error


def _batches_as_flight(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except Exception as error:
        raise _flight_error(error) from error


def _flight_error(error: Exception) -> flight.FlightError:
    if not isinstance(error, SluiceError):
        log.error("a Flight call failed", exc_info=error)
        parts = unexpected(error)
        return flight.FlightInternalError(parts["message"], json.dumps(parts).encode())
    log.warning("a Flight call was refused", **error.as_dict())
    kind = flight.FlightServerError
    if isinstance(error, AccessDenied):
        kind = flight.FlightUnauthenticatedError
    elif isinstance(error, SourceUnavailable):
        kind = flight.FlightUnavailableError
    parts = {key: value[:_CLIP] for key, value in error.as_dict().items()}
    return kind(str(error)[:_CLIP], json.dumps(parts).encode())

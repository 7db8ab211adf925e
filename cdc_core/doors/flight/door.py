"""The Flight door: its life, its calls as Flight has them, and our errors as Flight's.

Errors carry their JSON with the message, so a client raises what was raised here. Flight takes a certificate only
when it begins to listen, and has no bound of connections: for a renewed certificate the door listens again, while
streams that have begun go on, and `Connections` ends those that are too many.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import pyarrow as pa
import structlog
from pyarrow import flight

from cdc_core.doors.access import check_token
from cdc_core.doors.address import bracketed, listen
from cdc_core.doors.certificate import Certificate
from cdc_core.doors.connections import CONNECTIONS, LOOK_SECONDS, Connections, Peer, peer_of
from cdc_core.doors.errors import unexpected
from cdc_core.doors.flight.rows import Info, ServedRows
from cdc_core.doors.flight.tickets import read_command
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import AccessDenied, ConfigError, SluiceError, SourceUnavailable
from cdc_core.server.server import CanalServer

T = TypeVar("T")

_STOP_SECONDS = 5.0
_AGAIN, _AGAIN_SECONDS = 100, 0.02
_CLIP = 1000  # characters of an error: gRPC sends it in headers, which may have 8 KB

log = structlog.get_logger(__name__)


class FlightDoor:
    """Serves `server` on `host:port` between `start` and `stop`; port 0 binds a free port. With a certificate it speaks
    TLS alone. At most `connections` stay open."""

    def __init__(
        self,
        server: CanalServer,
        host: str,
        port: int,
        token: str | None = None,
        traffic: Traffic | None = None,
        *,
        certificate: Certificate | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        self.host = host
        self.port = port
        self._token, self._certificate = token, certificate
        self.connections = Connections(port, connections)
        self._rows = ServedRows(server, traffic or Traffic(server.has))
        self._flight: _Flight | None = None
        self._stopped = threading.Event()
        self._changing = threading.Lock()  # of `_flight`

    def __repr__(self) -> str:
        return f"<FlightDoor {self.url}{'' if self._flight else ' closed'}>"

    @property
    def url(self) -> str:
        return f"grpc{'+tls' if self._certificate else ''}://{bracketed(self.host)}:{self.port}"

    def start(self) -> None:
        """Returns when the door answers calls. Raises ConfigError when the port cannot be bound."""
        listen(self.host, self.port, "sluice.flight.port").close()  # gRPC does not say why it cannot listen
        self._flight = self._listening()
        self.port = self.connections.port = self._flight.port
        self._stopped.clear()
        threading.Thread(target=self._sweep, name="flight sweep", daemon=True).start()

    def _listening(self) -> _Flight:
        pem = self._certificate.pem if self._certificate else None
        try:
            return _Flight(self._rows, self.url, self._token, pem, self.connections)
        except pa.ArrowException as error:
            raise ConfigError(
                f"cannot listen: {error}", place=self.url, hint="Set sluice.flight.port to a free port."
            ) from error

    def stop(self) -> None:
        """Ends within seconds, also when a client does not read its stream."""
        self._stopped.set()
        with self._changing:
            flight, self._flight = self._flight, None
        if flight is not None:
            _end(flight).join(_STOP_SECONDS)

    def _sweep(self) -> None:
        """Until the door stops: plans of acked ranges go, connections are bounded, a renewed certificate is taken."""
        while not self._stopped.wait(LOOK_SECONDS):
            self._rows.plans.sweep()
            try:
                self.connections.look()
                self._renew()
            except Exception:  # tried again
                log.exception("the upkeep of the Flight door failed", door=self.url)

    def _renew(self) -> None:
        """Listens anew where the certificate is another one. What cannot be done is tried again."""
        with self._changing:
            flight, certificate = self._flight, self._certificate
            if certificate is None or (flight is not None and flight.pem == certificate.pem) or self._stopped.is_set():
                return
            if flight is not None:
                _end(flight)
                self._flight = None
            self._flight = self._listening_again()
        log.info("the Flight door uses a renewed certificate", door=self.url)

    def _listening_again(self) -> _Flight:
        """Where a server listened until now: its port is free in a moment, while its streams go on."""
        for _ in range(_AGAIN):
            with suppress(ConfigError):
                return self._listening()
            self._stopped.wait(_AGAIN_SECONDS)
        return self._listening()


def _end(server: _Flight) -> threading.Thread:
    """Ends its listening at once, and itself when its calls have ended; the thread that waits for them."""
    ending = threading.Thread(target=server.shutdown, name="flight door's end", daemon=True)
    ending.start()
    return ending


class _Flight(flight.FlightServerBase):  # type: ignore[misc]
    """Flight's server: each call translates to one of `rows`."""

    def __init__(
        self,
        rows: ServedRows,
        location: str,
        token: str | None,
        pem: tuple[bytes, bytes] | None,
        connections: Connections,
    ) -> None:
        self._rows, self.pem, self.connections = rows, pem, connections
        middleware = {"token": _TokenGuard(token)} if token else None
        super().__init__(location, middleware=middleware, tls_certificates=[pem] if pem else None)

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        info = self._info(context, descriptor)
        endpoints = [flight.FlightEndpoint(ticket, []) for ticket in info.tickets]
        return flight.FlightInfo(info.schema, descriptor, endpoints, info.rows, -1)

    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        return flight.SchemaResult(self._info(context, descriptor).schema)

    def _info(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> Info:
        with self.connections.call(peer_of(context.peer())):
            return _as_flight(lambda: self._rows.info(read_command(descriptor.command or b"")))

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        peer = peer_of(context.peer())
        with self.connections.call(peer):
            schema, batches = _as_flight(lambda: self._rows.stream(ticket.ticket))
        return flight.GeneratorStream(schema, self._streamed(batches, peer))

    def _streamed(self, batches: Iterator[pa.RecordBatch], peer: Peer) -> Iterator[pa.RecordBatch]:
        with self.connections.call(peer):
            yield from _batches_as_flight(batches)


class _TokenGuard(flight.ServerMiddlewareFactory):  # type: ignore[misc]
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

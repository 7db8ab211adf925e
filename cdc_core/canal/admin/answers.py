"""What canal-admin may ask of the service, as calls of the server. Source: Canal's `CanalAdminController`."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from cdc_core.canal.protocol.admin import AdminRequest, AdminType, UnknownAction
from cdc_core.server.server import CanalServer

_YES, _NO = "1", "0"
_RUNNING = ("running", "starting")
_LOGS = "the service's log goes to its standard error"

log = structlog.get_logger(__name__)


class AdminAnswers:
    """Calls may wait for a destination to start or to stop."""

    def __init__(self, server: CanalServer) -> None:
        self._server = server

    def __repr__(self) -> str:
        return f"<AdminAnswers {self._server!r}>"

    def __call__(self, request: AdminRequest) -> str:
        """Raises UnknownAction, UnknownDestination and what the server raises."""
        if request.kind is AdminType.LOG:
            return _LOGS if request.action != "list" else ""
        if request.action not in ("check", "list"):
            log.info("canal-admin asks", action=request.action, destination=request.destination)
        of_server = request.kind is AdminType.SERVER
        return self._of_server(request.action) if of_server else self._of_destination(request)

    def _of_server(self, action: str) -> str:
        """Start and stop are those of all destinations: the doors stay open."""
        if action == "check":
            return _YES
        if action == "list":
            return ",".join(name for name in self._server.destinations() if self._runs(name))
        calls = {"start": self._start, "stop": self._stop, "restart": self._restart}
        call = calls.get(action)
        if call is None:
            raise UnknownAction(f"ServerAdmin action: {action} is unknown")
        for name in self._server.destinations():
            call(name)
        return _YES

    def _of_destination(self, request: AdminRequest) -> str:
        if request.action == "check":
            return _YES if self._runs(request.destination) else _NO
        calls: dict[str, Callable[[str], object]] = {
            "start": self._start,
            "stop": self._stop,
            "restart": self._restart,
            "release": self._restart,  # its seat is given back meanwhile, and another server may take it
        }
        call = calls.get(request.action)
        if call is None:
            raise UnknownAction(f"InstanceAdmin action: {request.action} is unknown")
        call(request.destination)
        return _YES

    def _runs(self, name: str) -> bool:
        return self._server.destination(name).status().state in _RUNNING

    def _start(self, name: str) -> object:
        return self._server.start_destination(name)

    def _stop(self, name: str) -> object:
        return self._server.stop_destination(name)

    def _restart(self, name: str) -> object:
        return self._server.reload_destination(name)

"""A destination that another server runs: stands in for an instance, tells who does, refuses every other call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from cdc_core.config.models import InstanceConfig
from cdc_core.errors import CursorError, RunsElsewhere, RunsNowhere, SluiceError
from cdc_core.refused import blank_status
from cdc_core.schema.registry import SchemaRegistry


class Standby:
    """`active` is asked at each call: the address of the server that runs it, and that of its HTTP door ("" where not
    known, or where it is to be this one at `address`). `cut_off`: ZooKeeper cannot be reached, so that nobody can
    tell; `trouble`: it answers, but refuses what was asked of it last."""

    def __init__(
        self,
        config: InstanceConfig,
        address: str,
        active: Callable[[], tuple[str, str]],
        cut_off: Callable[[], bool],
        trouble: Callable[[], SluiceError | None] = lambda: None,
    ) -> None:
        self.config = config
        self.registry = SchemaRegistry()
        self._address = address
        self._active = active
        self._cut_off = cut_off
        self._trouble = trouble

    def __repr__(self) -> str:
        return f"<Standby {self.config.destination}>"

    def status(self) -> dict[str, Any]:
        address, http = self._active()
        error = self._error()
        source = {"address": self.config.address, "version": None, "server_id": None, "connected": False}
        return blank_status(self.config.destination, "standby") | {
            "active": {"address": address or None, "http": http or None},
            "source": source,
            "error": error.as_dict() | {"since": None} if error else None,
        }

    def metrics(self) -> dict[str, Any]:
        return {"leader": 0}

    def refusal(self) -> SluiceError:
        if error := self._error():
            return error
        address, http = self._active()
        name = self.config.destination
        if address in ("", self._address):  # its own: of before a restart, or about to be taken
            return RunsNowhere(
                f"nobody runs destination {name} just now", place=name, hint="Call again in some seconds."
            )
        return RunsElsewhere(
            f"this server stands by for destination {name}: {address} runs it",
            place=address,
            hint=f"Call {http}." if http else "Look for the active server in ZooKeeper.",
        )

    def _error(self) -> SluiceError | None:
        return self._away() if self._cut_off() else self._trouble()

    def _away(self) -> SluiceError:
        return CursorError(
            "ZooKeeper does not answer, so nobody can tell who runs the destination",
            place="canal.zkServers",
            hint="Start ZooKeeper or correct canal.zkServers; the call may be made again.",
        )

    def _refuse(self, *_arguments: Any, **_named: Any) -> NoReturn:
        raise self.refusal()

    claim = ack = renew = rollback = slices = note_read = stop_table = resume_table = client = tables = _refuse

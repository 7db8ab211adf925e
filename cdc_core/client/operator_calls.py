"""The calls of an operator: a destination stopped, started, or reset by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from cdc_core.client.calls import Calls
from cdc_core.errors import UnknownDestination
from cdc_core.position import EntryPosition

_SECONDS = 60.0  # stopping a destination waits for its threads


@dataclass(frozen=True, slots=True)
class ResetMove:
    """What a reset means for one client. None is unknown."""

    client_id: int
    old: EntryPosition | None
    again_bytes: int | None
    skipped_bytes: int | None
    moved: bool

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        return cls(
            client_id=fields["client_id"],
            old=EntryPosition.from_dict(fields["from"]) if fields["from"] else None,
            again_bytes=fields["again_bytes"],
            skipped_bytes=fields["skipped_bytes"],
            moved=fields["moved"],
        )


@dataclass(frozen=True, slots=True)
class ResetResult:
    """Where the cursors are set, what that means for each client, and whether it was done. `anew`: the tables that stop
    until they are reloaded."""

    destination: str
    to: EntryPosition
    clients: tuple[ResetMove, ...]
    done: bool
    anew: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        moves, anew = tuple(map(ResetMove.from_dict, fields["clients"])), tuple(fields.get("anew", ()))
        return cls(fields["destination"], EntryPosition.from_dict(fields["to"]), moves, fields["done"], anew)


class OperatorCalls:
    """`home` is the destination's path. Without state."""

    def __init__(self, calls: Calls, home: str) -> None:
        self._calls, self._home = calls, home

    def stop(self) -> list[str]:
        """Stops the destination at every server that knows it, or the next one would take it over. Returns their
        addresses. It may be repeated."""
        return self._everywhere("stop")

    def start(self) -> list[str]:
        """Starts it at every server that knows it. Returns their addresses. It may be repeated."""
        return self._everywhere("start")

    def is_purged(self, client_id: int) -> bool:
        """Whether the source no longer has the journal of this client's cursor. Asks the source."""
        found = self._calls.call("GET", f"{self._home}/positions", patience=_SECONDS)
        return any(one["purged"] for one in found["clients"] if one["client_id"] == client_id)

    def reset(
        self,
        to: str | int | dict[str, Any],
        *,
        client_id: int | None,
        moved: bool = False,
        epoch: int = 0,
        identity: str = "",
        of_epoch: int | None = None,
        dry_run: bool = True,
    ) -> ResetResult:
        """What setting the cursors to a place would mean; without `dry_run` it is done. The fields are those of the
        call in docs/protocol.md. Raises PositionError for a place that does not exist."""
        body = {"to": to, "client_id": client_id, "moved": moved, "epoch": epoch, "identity": identity}
        body |= {"of_epoch": of_epoch, "dry_run": dry_run}
        answer = self._calls.call("POST", f"{self._home}/reset", body, repeat=dry_run, patience=_SECONDS)
        return ResetResult.from_dict(answer)

    def _everywhere(self, verb: str) -> list[str]:
        """Raises UnknownDestination when no server knows it, ServiceUnavailable when one does not answer."""
        done, unknown = [], None
        for url in self._calls.servers():
            try:
                self._calls.call_at(url, "POST", f"{self._home}/{verb}", patience=_SECONDS)
                done.append(url)
            except UnknownDestination as error:
                unknown = error
        if unknown is not None and not done:
            raise unknown
        return done

"""`sluice positions [DESTINATION]`: how far every client is behind its source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdc_core.errors import SluiceError, error_from
from cdc_core.position import EntryPosition
from orchestration.commands.service import call, path_of
from orchestration.commands.status import statuses
from orchestration.commands.text import number, place, position, position_from, print_error, table, text


@dataclass(frozen=True, slots=True)
class Client:
    """One client's cursor and its distance to the source's end. None is unknown."""

    client_id: int
    epoch: int
    cursor: EntryPosition | None
    nbytes: int | None
    transactions: int | None
    seconds: float | None
    files_left: int | None
    purged: bool
    kept: bool = False

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        return cls(
            client_id=fields["client_id"],
            epoch=fields["epoch"],
            cursor=position_from(fields["cursor"]),
            nbytes=fields["bytes"],
            transactions=fields["transactions"],
            seconds=fields["seconds"],
            files_left=fields["files_left"],
            purged=fields["purged"],
            kept=fields.get("kept", False),
        )

    def distance(self) -> str:
        """How far the client is behind, for people."""
        if self.purged:
            return "the source has purged this binlog file"
        quantities = ((self.nbytes, "bytes"), (self.transactions, "transactions"), (self.seconds, "s"))
        known = [f"{value:,.0f} {unit}" for value, unit in quantities if value is not None]
        if self.files_left is not None:
            known.append(f"{self.files_left:,} files left")
        elif self.kept:
            known.append("on disk; the source has purged this binlog file")
        return ", ".join(known) or "-"


def run(destination: str | None, service: str, token: str, *, as_json: bool) -> int:
    """1 when a cursor's file is purged, or a destination has no answer. The error of a named destination is raised."""
    if destination is not None:
        found = [call(service, token, "GET", f"{path_of(destination)}/positions")]
    else:
        found = [_positions(status.destination, service, token) for status in statuses(service, token)]
    if as_json:
        print(json.dumps(found))
    else:
        show(found)
    purged = any(client["purged"] for one in found for client in one.get("clients", []))
    return 1 if purged or any("error" in one for one in found) else 0


def _positions(name: str, service: str, token: str) -> dict[str, Any]:
    """The positions of one destination, or its error: the other destinations are shown all the same."""
    try:
        return dict(call(service, token, "GET", f"{path_of(name)}/positions"))
    except SluiceError as error:
        return {"destination": name, "error": error.as_dict()}


def show(found: list[dict[str, Any]]) -> None:
    console = Console()
    for one in found:
        if error := one.get("error"):
            print_error(console, one["destination"], error_from(error))
        else:
            end = place(position_from(one["end"]))
            kept = f", on disk from {place(position_from(one['kept']))} on" if one.get("kept") else ""
            console.print(Text.assemble((one["destination"], "bold"), f": {one['source']} ends at {end}{kept}"))
            console.print(_table(map(Client.from_dict, one["clients"])))


def _table(clients: Iterable[Client]) -> Table:
    columns = table(number("client"), number("epoch"), position("cursor"), text("behind"))
    for client in clients:
        style = "red" if client.purged else None
        columns.add_row(str(client.client_id), str(client.epoch), place(client.cursor), client.distance(), style=style)
    return columns

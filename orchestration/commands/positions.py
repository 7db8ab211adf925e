"""`sluice positions [DESTINATION]`: how far every client is behind its source."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from cdc_core.errors import SluiceError
from orchestration.commands.service import call, home
from orchestration.commands.status import destinations, place

_COLUMNS = ("destination", "client", "epoch", "cursor", "end", "bytes", "transactions", "seconds", "files left")
_RIGHT = ("client", "epoch", "bytes", "transactions", "seconds", "files left")


def run(destination: str | None, service: str, token: str, *, as_json: bool) -> int:
    """1 when a destination cannot tell, or a cursor's journal is gone. One that is named raises what it failed with."""
    if destination is not None:
        found = [call(service, token, "GET", f"{home(destination)}/positions")]
    else:
        found = [_asked(one["destination"], service, token) for one in destinations(service, token)]
    if as_json:
        print(json.dumps(found))
    else:
        _print(found)
    purged = any(client["purged"] for one in found for client in one.get("clients", []))
    return 1 if purged or any("error" in one for one in found) else 0


def _asked(name: str, service: str, token: str) -> dict[str, Any]:
    """Its positions, or what keeps them: the others are shown all the same."""
    try:
        return dict(call(service, token, "GET", f"{home(name)}/positions"))
    except SluiceError as error:
        return {"destination": name, "error": error.as_dict()}


def _print(found: list[dict[str, Any]]) -> None:
    console, table = Console(), Table()
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name in _RIGHT else "left")
    for one in found:
        for client in one.get("clients", []):
            _add(table, one, client)
    console.print(table)
    for one in found:
        if error := one.get("error"):
            console.print(f"[red]{one['destination']}[/red]: {error['message']}\n hint: {error['hint']}")


def _add(table: Table, one: dict[str, Any], client: dict[str, Any]) -> None:
    table.add_row(
        one["destination"],
        str(client["client_id"]),
        str(client["epoch"]),
        place(client["cursor"]),
        place(one["end"]),
        _count(client["bytes"]),
        _count(client["transactions"]),
        _count(client["seconds"]),
        "purged" if client["purged"] else _count(client["files_left"]),
        style="red" if client["purged"] else None,
    )


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"

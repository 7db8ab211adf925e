"""`sluice status`: asks the service."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestration.commands.service import call


def run(service: str, token: str, *, as_json: bool) -> int:
    """1 when a destination has failed."""
    found = destinations(service, token)
    if as_json:
        print(json.dumps(found))
    else:
        show(found)
    return 1 if any(one["error"] for one in found) else 0


def destinations(service: str, token: str = "") -> list[dict[str, Any]]:
    """All destinations' states. Raises ServiceUnavailable, AccessDenied."""
    return list(call(service, token, "GET", "/v1/destinations"))


def show(found: list[dict[str, Any]]) -> None:
    """For people."""
    table = Table()
    for name in ("destination", "state", "source", "position", "lag", "backlog"):
        table.add_column(name, justify="right" if name in ("lag", "backlog") else "left")
    for one in found:
        table.add_row(
            one["destination"],
            one.get("note") or one["state"],
            _source(one["source"]),
            place(one["position"]),
            _number(one["lag_seconds"], " s"),
            _number(one["backlog_rows"], " rows"),
        )
    console = Console()
    console.print(table)
    for one in found:
        if error := one["error"]:
            console.print(f"[red]{one['destination']}[/red]: {error['message']}\n   at: {error['place']}")
            console.print(f" hint: {error['hint']}")


def place(position: dict[str, Any] | None) -> str:
    """Journal and offset, for people."""
    return f"{position['journalName']}:{position['position']}" if position else "-"


def _source(source: dict[str, Any]) -> str:
    role = " (standby)" if source.get("role") == "standby" else ""
    return f"{source.get('address') or ''}{role}"


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"

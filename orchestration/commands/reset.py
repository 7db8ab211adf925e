"""`sluice reset DESTINATION`: sets cursors to another place of the source. Tells what that means before it does it."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestration.commands.service import call, home
from orchestration.commands.status import place

_POSITION = re.compile(r"(\S+\.\d+):(\d+)")


def target(
    position: str | None, timestamp: str | None, gtid: str | None, *, earliest: bool, latest: bool
) -> str | int | dict[str, Any] | None:
    """The body's `to`; None unless exactly one is given, and well formed."""
    if sum((position is not None, timestamp is not None, gtid is not None, earliest, latest)) != 1:
        return None
    if gtid is not None:
        return {"gtid": gtid}
    if timestamp is not None:
        return _milliseconds(timestamp)
    if position is None:
        return "earliest" if earliest else "latest"
    parts = _POSITION.fullmatch(position)
    return {"journalName": parts[1], "position": int(parts[2])} if parts else None


def _milliseconds(timestamp: str) -> int | None:
    """Of a number of them, or of a date and time; without a zone it is this machine's."""
    if timestamp.isascii() and timestamp.isdigit():
        return int(timestamp)
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return None


def run(name: str, body: dict[str, Any], service: str, token: str, *, as_json: bool) -> int:
    """0 when it was told, or done."""
    told = call(service, token, "POST", f"{home(name)}/reset", body)
    if as_json:
        print(json.dumps(told))
    else:
        _print(told)
    return 0


def _print(told: dict[str, Any]) -> None:
    console, table = Console(), Table(title=f"{told['destination']} to {place(told['to'])}", title_justify="left")
    for column in ("client", "from", "read again", "skipped"):
        table.add_column(column, justify="left" if column == "from" else "right")
    for one in told["clients"]:
        table.add_row(
            str(one["client_id"]), place(one["from"]), _bytes(one["again_bytes"]), _bytes(one["skipped_bytes"])
        )
    console.print(table)
    if any(one["skipped_bytes"] for one in told["clients"]):
        console.print("[red]What is skipped is never read: its changes will be missing in the lake.[/red]")
    if any(one["moved"] for one in told["clients"]):
        console.print("The source is another server: tables without a primary key will stop.")
    console.print("Done: the destination starts there." if told["done"] else "Nothing was done. Add --yes to do it.")


def _bytes(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,} bytes"

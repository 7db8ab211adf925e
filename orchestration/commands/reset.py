"""`sluice reset DESTINATION`: sets cursors to another place of the source, or only says what that would mean."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.text import Text

from cdc_core.client.operator_calls import ResetResult
from orchestration.commands.service import call, path_of
from orchestration.commands.text import number, place, position, table


def run(name: str, body: dict[str, Any], service: str, token: str, *, as_json: bool) -> int:
    """0 when the service has answered with the plan, or has carried it out."""
    answer = call(service, token, "POST", f"{path_of(name)}/reset", body)
    if as_json:
        print(json.dumps(answer))
    else:
        show(ResetResult.from_dict(answer))
    return 0


def show(answer: ResetResult) -> None:
    console = Console()
    columns = table(number("client"), position("from"), number("read again"), number("skipped"))
    for move in answer.clients:
        columns.add_row(str(move.client_id), place(move.old), _bytes(move.again_bytes), _bytes(move.skipped_bytes))
    console.print(Text.assemble((answer.destination, "bold"), f" to {place(answer.to)}"))
    console.print(columns)
    if answer.anew:
        console.print(f"{_AFTER[answer.done]} until `sluice snapshot {answer.destination}` reloads them:")
        console.print(Text(", ".join(answer.anew)))
    elif any(move.skipped_bytes for move in answer.clients):
        console.print("[red]Skipped changes are never read: they will be missing in the lake.[/red]")
    if any(move.moved for move in answer.clients):
        console.print("The source is another server: tables without a primary key will stop.")
    console.print(
        "Done: the destination goes on from that position." if answer.done else "Nothing was done. Add --yes to do it."
    )


_AFTER = {True: "These tables are stopped", False: "These tables would stop"}


def _bytes(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,} bytes"

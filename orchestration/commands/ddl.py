"""`sluice ddl list`: the statements that wait where a table's policy is `ask`."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.console import Console

from orchestration.commands.text import position, table, text
from orchestration.verbs.access import Access
from orchestration.verbs.ddl import proposals


def show(at: Access, *, as_json: bool) -> int:
    """Prints a row, or with --json a line, for each statement that waits."""
    console = Console()
    with at.connect() as connector:
        found = proposals(connector.client_status().stopped)
    if as_json:
        for one in found:
            print(json.dumps(asdict(one)), flush=True)
    elif not found:
        console.print(f"{at.destination}: no statement waits for approval")
    else:
        rows = table(text("table"), text("statement"), position("since"))
        for one in found:
            rows.add_row(one.table, one.statement, one.position)
        console.print(rows)
    return 0

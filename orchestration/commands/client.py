"""`sluice client list|remove`: who reads a destination, and who no longer does."""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.status import Status
from cdc_core.errors import SessionError
from orchestration.commands.service import call, path_of
from orchestration.commands.text import number, place, position, table, text


def show(name: str, service: str, token: str, *, as_json: bool) -> int:
    """0. Raises UnknownDestination, and what keeps the destination from answering."""
    clients = _clients(name, service, token)
    if as_json:
        print(json.dumps([client.to_dict() for client in clients]))
        return 0
    columns = table(number("client"), position("cursor"), number("backlog"), number("batches"), text(""))
    for client in clients:
        style = "red" if client.holds_back_seconds is not None else None
        cells = str(client.client_id), place(client.cursor), str(client.waiting), str(len(client.claims))
        columns.add_row(*cells, _remark(client), style=style)
    Console().print(columns)
    return 0


def remove(name: str, client_id: int, service: str, token: str, *, as_json: bool) -> int:
    """0 when the service has forgotten it. Raises SessionError for one that is configured, or not there."""
    if all(client.client_id != client_id for client in _clients(name, service, token)):
        hint = f"See them with: sluice client list {name}"
        raise SessionError(f"client {client_id} is not subscribed", place=name, hint=hint)
    call(service, token, "DELETE", f"{path_of(name)}/clients/{client_id}")
    if as_json:
        print(json.dumps({"destination": name, "client_id": client_id, "removed": True}))
    else:
        Console().print(Text(f"client {client_id} of {name} is forgotten"))
    return 0


def _clients(name: str, service: str, token: str) -> tuple[ClientStatus, ...]:
    return Status.from_dict(call(service, token, "GET", path_of(name))).clients


def _remark(client: ClientStatus) -> str:
    if client.holds_back_seconds is not None:
        return f"holds the others up for {client.holds_back_seconds:.0f} s"
    return "configured" if client.configured else ""

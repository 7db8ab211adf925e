"""`sluice client`: its arguments and options."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.options import LOCAL, Json, Name, Token, Url

client = typer.Typer(help="The clients of a destination of the running service.", no_args_is_help=True)


@client.command("list")
def show_clients(name: Name, service: Url = LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Show the subscribed clients: cursor, backlog, outstanding batches, and who holds the others up."""
    from orchestration.commands.client import show

    raise typer.Exit(show(name, service, token, as_json=as_json))


@client.command("remove")
def remove_client(
    name: Name,
    client_id: Annotated[int, typer.Argument(min=0, help="The client's number.", show_default=False)],
    service: Url = LOCAL,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Forget a client and its cursor, so that it holds nothing back. One that is configured stays."""
    from orchestration.commands.client import remove

    raise typer.Exit(remove(name, client_id, service, token, as_json=as_json))

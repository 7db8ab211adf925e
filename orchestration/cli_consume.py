"""The arguments and options of `sluice consume`."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.options import Json, Name


def consume(
    destination: Name,
    address: Annotated[str, typer.Option(help="host:port of a server (canal.port).")] = "127.0.0.1:11111",
    zookeeper: Annotated[
        str, typer.Option(help="host:port,host:port/chroot: the server that runs it is found there.")
    ] = "",
    client_id: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=32767,
            show_default=False,
            help="The client whose cursor moves. Without it a new one, from the newest transaction on, for this time.",
        ),
    ] = None,
    user: Annotated[str, typer.Option(help="canal.user of the destination.")] = "",
    password: Annotated[
        str, typer.Option(envvar="SLUICE_CANAL_PASSWORD", help="Its password.", show_default=False)
    ] = "",
    filter_text: Annotated[str, typer.Option("--filter", help="Expressions over database.table.")] = "",
    batch_size: Annotated[int, typer.Option(min=1, help="In the server's unit: rows, or KB of the binlog.")] = 1000,
    batches: Annotated[int | None, typer.Option(min=1, help="End after so many.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Print what a client of a destination gets, by Canal's protocol, until Ctrl-C. What is printed is acked: the
    client's cursor moves."""
    from orchestration.commands.consume import PASSING, connector_of, run

    number = PASSING if client_id is None else client_id
    connector = connector_of(address, zookeeper, destination, number, user, password, filter_text)
    raise typer.Exit(run(connector, batch_size, batches, passing=client_id is None, as_json=as_json))

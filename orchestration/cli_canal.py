"""The arguments and options of `sluice consume` and `sluice mirror`, which speak Canal's protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.options import Json, Name

Address = Annotated[str, typer.Option(help="host:port of a server (canal.port).")]
Zookeeper = Annotated[
    str,
    typer.Option(
        help="host:port of each ZooKeeper, with commas, and /chroot; it knows which server runs the destination."
    ),
]
User = Annotated[str, typer.Option(help="canal.user of the destination.")]
Password = Annotated[str, typer.Option(envvar="SLUICE_CANAL_PASSWORD", help="Its password.", show_default=False)]
BatchSize = Annotated[int, typer.Option(min=1, help="In the server's unit: rows, or KB of the binlog.")]
Batches = Annotated[int | None, typer.Option(min=1, help="End after so many.", show_default=False)]


def consume(
    destination: Name,
    address: Address = "127.0.0.1:11111",
    zookeeper: Zookeeper = "",
    client_id: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=32767,
            show_default=False,
            help="The client to read as; its cursor moves. Default: a temporary one that begins at the end.",
        ),
    ] = None,
    user: User = "",
    password: Password = "",
    filter_text: Annotated[str, typer.Option("--filter", help="Expressions over database.table.")] = "",
    batch_size: BatchSize = 1000,
    batches: Batches = None,
    as_json: Json = False,
) -> None:
    """Print what a client of a destination gets, by Canal's protocol, until Ctrl-C.

    What is printed is acked: the client's cursor moves."""
    from orchestration.commands.consume import PASSING, connector_of, run

    number = PASSING if client_id is None else client_id
    connector = connector_of(address, zookeeper, destination, number, user, password, filter_text)
    raise typer.Exit(run(connector, batch_size, batches, passing=client_id is None, as_json=as_json))


def mirror(
    destination: Name,
    rules: Annotated[Path, typer.Option(help="Folder of *.yml, as for Canal's RDB adapter.")],
    target: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="mysql://user@host/db or postgresql://...; a port may follow the host. Positions are kept there.",
        ),
    ],
    target_password: Annotated[
        str, typer.Option(envvar="SLUICE_MIRROR_PASSWORD", help="Password of the target.", show_default=False)
    ] = "",
    address: Address = "127.0.0.1:11111",
    zookeeper: Zookeeper = "",
    client_id: Annotated[int, typer.Option(min=0, max=32767, help="The client to read as; its cursor moves.")] = 1001,
    user: User = "",
    password: Password = "",
    batch_size: BatchSize = 4096,
    batches: Batches = None,
    done: Annotated[
        list[str] | None,
        typer.Option(help="journal:position of a refused statement that was run by hand.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Apply a destination to another MySQL, MariaDB or PostgreSQL, exactly once, until Ctrl-C."""
    from orchestration.commands.mirror import Source, run

    source = Source(destination, address, zookeeper, client_id, user, password)
    raise typer.Exit(run(source, rules, target, target_password, batch_size, batches, done or (), as_json=as_json))

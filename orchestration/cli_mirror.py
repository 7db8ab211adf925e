"""The arguments and options of `sluice mirror`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.options import Json, Name


def mirror(
    destination: Name,
    rules: Annotated[Path, typer.Option(help="Folder of *.yml, as for Canal's RDB adapter.")],
    target: Annotated[
        str,
        typer.Option(help="mysql://user@host:port/database, or postgresql://...: its position table is made there."),
    ],
    target_password: Annotated[
        str, typer.Option(envvar="SLUICE_MIRROR_PASSWORD", help="Password of the target.", show_default=False)
    ] = "",
    address: Annotated[str, typer.Option(help="host:port of a server (canal.port).")] = "127.0.0.1:11111",
    zookeeper: Annotated[
        str, typer.Option(help="host:port,host:port/chroot: the server that runs it is found there.")
    ] = "",
    client_id: Annotated[int, typer.Option(min=0, max=32767, help="The client whose cursor moves.")] = 1001,
    user: Annotated[str, typer.Option(help="canal.user of the destination.")] = "",
    password: Annotated[
        str, typer.Option(envvar="SLUICE_CANAL_PASSWORD", help="Its password.", show_default=False)
    ] = "",
    batch_size: Annotated[int, typer.Option(min=1, help="In the server's unit: rows, or KB of the binlog.")] = 4096,
    batches: Annotated[int | None, typer.Option(min=1, help="End after so many.", show_default=False)] = None,
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

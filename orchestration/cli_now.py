"""The command `sluice now`: its arguments and options."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.options import Client, Json, LakeRoot, Name


def now(
    name: Name,
    lake: LakeRoot,
    table: Annotated[
        list[str] | None, typer.Argument(help="database.table; all with a change log without it.", show_default=False)
    ] = None,
    client: Client = 1001,
    as_json: Json = False,
) -> None:
    """Print the SQL of the views that show landed tables as of the end of their change logs."""
    from orchestration.commands.now import run

    raise typer.Exit(run(name, tuple(table or ()), lake, client, as_json=as_json))

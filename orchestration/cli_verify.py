"""`sluice verify`: its arguments and options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.options import Client, Conf, Json, ServiceOrConf, Token


def verify(
    lake: Annotated[str, typer.Option(help="Path or URI of the lake.")],
    conf: Conf = Path("conf"),
    destination: Annotated[
        str | None, typer.Option(help="One destination; all of the configuration without it.")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="database.table; repeat it for more. All captured tables without it.")
    ] = None,
    client: Client = 1001,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait until the lake has caught up.")] = 60,
    service: ServiceOrConf = None,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Compare source and lake while others write, with a JSON line for each table; 1 if they differ."""
    from orchestration.commands.verify import Question, run

    question = Question(lake, conf, destination, tuple(table or ()), client, timeout, service, token)
    raise typer.Exit(run(question, as_json=as_json))

"""`sluice ddl`: its arguments and options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.options import (
    Client,
    Conf,
    Json,
    LakeRoot,
    Name,
    ServiceOrConf,
    Spark,
    SparkToken,
    Tables,
    Token,
)

ddl = typer.Typer(help="DDL statements that wait for approval (policy `ask`).", no_args_is_help=True)


@ddl.command("list")
def show_waiting(
    name: Name,
    conf: Conf = Path("conf"),
    client: Client = 1001,
    service: ServiceOrConf = None,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Show the tables that wait, each with its statement."""
    from orchestration.commands.copy import Order
    from orchestration.commands.ddl import show

    raise typer.Exit(show(Order(name, (), "", conf, client, "", "", service, token), as_json=as_json))


@ddl.command("approve")
def approve_waiting(
    name: Name,
    table: Tables,
    lake: LakeRoot,
    conf: Conf = Path("conf"),
    client: Client = 1001,
    spark: Spark = "sc://127.0.0.1:15002",
    spark_token: SparkToken = "",
    service: ServiceOrConf = None,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Take a waiting statement over: the table is reloaded with the source's present columns and rows."""
    from orchestration.commands.copy import Order
    from orchestration.commands.ddl import approve

    order = Order(name, tuple(table), lake, conf, client, spark, spark_token, service, token)
    raise typer.Exit(approve(order, as_json=as_json))


@ddl.command("reject")
def reject_waiting(
    name: Name,
    table: Tables,
    reason: Annotated[str, typer.Option(help="Why: it becomes a part of the stop's reason.")] = "",
    conf: Conf = Path("conf"),
    client: Client = 1001,
    service: ServiceOrConf = None,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Reject a waiting statement: the table stays as it was before it, and stays stopped with that reason."""
    from orchestration.commands.copy import Order
    from orchestration.commands.ddl import refuse

    order = Order(name, tuple(table), "", conf, client, "", "", service, token)
    raise typer.Exit(refuse(order, reason, as_json=as_json))

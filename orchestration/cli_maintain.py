"""`sluice maintain`: its arguments and options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.options import Client, Conf, Json, LakeRoot, Name, ServiceOrConf, Spark, SparkToken, Token


def maintain(
    name: Name,
    lake: LakeRoot,
    table: Annotated[
        list[str] | None, typer.Argument(help="database.table; all captured tables without it.", show_default=False)
    ] = None,
    log_retention: Annotated[
        str,
        typer.Option(help="How long change logs keep rows that their tables have: 30d, 8w. Without it, for ever."),
    ] = "",
    freshness: Annotated[
        str, typer.Option(help="What defs.yaml declares: of `asap`, files wait for a claim that can be held.")
    ] = "",
    conf: Conf = Path("conf"),
    client: Client = 1001,
    spark: Spark = "sc://127.0.0.1:15002",
    spark_token: SparkToken = "",
    service: ServiceOrConf = None,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Rewrite small files of the lake's tables and change logs as large ones and delete old ones, while the stream goes
    on; 1 if a table could not be looked after."""
    from orchestration.commands.copy import Order
    from orchestration.commands.maintain import run
    from spark_jobs.maintain.retention import log_hours

    order = Order(name, tuple(table or ()), lake, conf, client, spark, spark_token, service, token)
    raise typer.Exit(run(order, as_json=as_json, log_hours=log_hours(log_retention), freshness=freshness))

"""`sluice verify`: its arguments and options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from orchestration.options import Client, Conf, Json, LakeRoot, ServiceOrConf, Spark, SparkToken, Token


def verify(
    lake: LakeRoot,
    conf: Conf = Path("conf"),
    destination: Annotated[
        str | None, typer.Option(help="One destination; all of the configuration without it.")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="database.table; repeat it for more. All captured tables without it.")
    ] = None,
    client: Client = 1001,
    repair: Annotated[bool, typer.Option("--repair", help="Bring the rows right that differ; needs Spark.")] = False,
    spark: Spark = "sc://127.0.0.1:15002",
    spark_token: SparkToken = "",
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait until the lake has caught up.")] = 60,
    service: ServiceOrConf = None,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Compare source and lake while others write, with a JSON line for each table; 1 if they differ.

    With --repair, rows of tables with a key that differ are brought right, and 1 is for what differs still."""
    from orchestration.commands.verify import Question, run

    asked = Question(lake, conf, destination, tuple(table or ()), client, timeout, service, token)
    question = replace(asked, repair=repair, spark=spark, spark_token=spark_token)
    raise typer.Exit(run(question, as_json=as_json))

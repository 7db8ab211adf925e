"""The arguments and options of `sluice drain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.options import Client, Json, Name, ServiceOrConf, SparkToken, Token

_CONF = "Directory of canal.properties and */instance.properties; conf if neither it nor --defs is given."
_LAKE = "Path or URI of the lake. Default: as in --defs."
_DEFS = "The destination's settings: a defs.yaml, or a folder of */defs.yaml."


def drain(
    name: Name,
    lake: Annotated[str, typer.Option(envvar="SLUICE_LAKE", help=_LAKE, show_default=False)] = "",
    conf: Annotated[Path | None, typer.Option(help=_CONF)] = None,
    defs: Annotated[Path | None, typer.Option(envvar="SLUICE_DEFS", help=_DEFS)] = None,
    once: Annotated[bool, typer.Option("--once", help="One batch, or nothing.")] = False,
    seconds: Annotated[float | None, typer.Option(min=1, help="Begin no batch after this time.")] = None,
    client: Client = 1001,
    service: ServiceOrConf = None,
    token: Token = "",
    spark: Annotated[
        str, typer.Option(envvar="SPARK_REMOTE", help="The Spark Connect server.", show_default=False)
    ] = "",
    spark_token: SparkToken = "",
    as_json: Json = False,
) -> None:
    """Claim, apply and ack what waits for a destination, batch after batch, until nothing waits.

    For other schedulers than Dagster: docs/guides/airflow.md. If it fails or is interrupted, its claim is given back.

    Exit code 1: it failed, or a table is stopped or fails a check that is more than a warning."""
    from orchestration.commands.drain import run

    there = conf or (None if defs else Path("conf"))
    done = run(
        name, lake=lake, conf=there, defs=defs, client=client, service=service, token=token, spark=spark,
        spark_token=spark_token, once=once, seconds=seconds, as_json=as_json,
    )  # fmt: skip
    raise typer.Exit(done)

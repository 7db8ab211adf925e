"""The arguments and options of `sluice init` and `sluice check`, which come before the first start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.options import Client, Conf, Json, LakeRoot, ServiceOrConf, Spark, SparkToken, Token

_OURS = "sc://127.0.0.1:15002"  # where `sluice up` starts a Spark


def init(
    conf: Conf = Path("conf"),
    defs: Annotated[Path, typer.Option(help="The defs.yaml to write.")] = Path("defs.yaml"),
    destination: Annotated[str, typer.Option(help="Name of the destination.")] = "",
    address: Annotated[str, typer.Option(help="host:port of MySQL.", show_default=False)] = "",
    user: Annotated[str, typer.Option(help="The account; its password is MYSQL_PASSWORD.", show_default=False)] = "",
    database: Annotated[
        list[str] | None, typer.Option(help="A database to capture. Default: all.", show_default=False)
    ] = None,
    lake: Annotated[str, typer.Option(envvar="SLUICE_LAKE", help="Path or URI of the lake.", show_default=False)] = "",
    zookeeper: Annotated[
        str, typer.Option(help="host:port of each ZooKeeper, for the cursors. Default: cursors are in files.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Write conf/ and defs.yaml for a MySQL of your own. In a terminal it asks for what no option gives."""
    from orchestration.commands.init import Answers, run

    given = Answers(destination, address, user, tuple(database or ()), lake, zookeeper)
    raise typer.Exit(run(conf, defs, given, as_json=as_json))


def check(
    lake: LakeRoot,
    name: Annotated[
        str | None, typer.Argument(help="A destination that runs. Default: check what all need.", show_default=False)
    ] = None,
    conf: Conf = Path("conf"),
    client: Client = 1001,
    service: ServiceOrConf = None,
    token: Token = "",
    spark: Spark = _OURS,
    spark_token: SparkToken = "",
    as_json: Json = False,
) -> None:
    """Show what is right and what is wrong of the configuration, sources, ZooKeeper, lake, Spark and its executors.

    With a destination: what Spark and its executors lack for it, by the service that runs.

    Exit code 1: something is missing."""
    if name is None:
        from orchestration.commands import preflight
        from orchestration.stack.ports import listening

        there = "" if spark == _OURS and not listening(15002) else spark
        raise typer.Exit(preflight.run(conf, lake, there, spark_token, as_json=as_json))
    from orchestration.commands.check import run
    from orchestration.commands.verb import access_of

    at = access_of(
        name, lake=lake, conf=conf, client=client, service=service, token=token, spark=spark, spark_token=spark_token
    )
    raise typer.Exit(run(at, as_json=as_json))

"""The command `sluice remake`: its arguments and options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.options import Client, Json, LakeRoot, Name, Spark, SparkToken


def remake(
    name: Name,
    table: Annotated[str, typer.Argument(help="database.table, of which the lake has a change log.")],
    lake: LakeRoot,
    from_version: Annotated[
        int | None, typer.Option(min=0, help="One of the table's earlier versions.", show_default=False)
    ] = None,
    from_copy: Annotated[bool, typer.Option("--from-copy", help="What its last copy or snapshot brought.")] = False,
    from_nothing: Annotated[bool, typer.Option("--from-nothing", help="Its log alone, from the beginning.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    client: Client = 1001,
    spark: Spark = "sc://127.0.0.1:15002",
    spark_token: SparkToken = "",
    as_json: Json = False,
) -> None:
    """Make a table of the lake anew from its change log, without the source, in one commit."""
    from orchestration.commands.copy import Order
    from orchestration.commands.remake import run
    from orchestration.jobs.remake import COPY, NOTHING

    chosen = [COPY] * from_copy + [NOTHING] * from_nothing + [str(from_version)] * (from_version is not None)
    if len(chosen) != 1:
        raise typer.BadParameter("give one of --from-version N, --from-copy, --from-nothing")
    order = Order(name, (table,), lake, Path("conf"), client, spark, spark_token, None, "")
    raise typer.Exit(run(order, chosen[0], dry_run=dry_run, as_json=as_json))

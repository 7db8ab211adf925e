"""The arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LOCAL = "http://127.0.0.1:11112"  # where the service is by default

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Conf = Annotated[Path, typer.Option(help="Directory of canal.properties and */instance.properties.")]
HttpPort = Annotated[int, typer.Option(help="Port of the service's page and control.")]
FlightPort = Annotated[int, typer.Option(help="Port of the service's data.")]
DagsterPort = Annotated[int, typer.Option(help="Port of Dagster's page.")]
Warm = Annotated[bool, typer.Option("--warm/--no-warm", help="Warm the Spark that is started, while the rest starts.")]
Defs = Annotated[
    Path | None, typer.Option(help="The settings of the destination: a defs.yaml, or a folder of */defs.yaml.")
]
Url = Annotated[str, typer.Option("--service", envvar="SLUICE_SERVICE", help="URL of the service.")]
Token = Annotated[str, typer.Option(envvar="SLUICE_TOKEN", help="Bearer token of the service.", show_default=False)]
Name = Annotated[str, typer.Argument(help="Name of the destination.", show_default=False)]
Client = Annotated[int, typer.Option(help="The client that writes the lake.")]
ServiceOrConf = Annotated[str | None, typer.Option(help="URL of the service. Default: from the configuration.")]
LakeRoot = Annotated[str, typer.Option(envvar="SLUICE_LAKE", help="Path or URI of the lake.")]
SomeLake = Annotated[str | None, typer.Option(help="Path or URI of the lake, for the rows that wait in quarantines.")]
Spark = Annotated[str, typer.Option(envvar="SPARK_REMOTE", help="The Spark Connect server.")]
SparkToken = Annotated[str, typer.Option(envvar="SPARK_CONNECT_TOKEN", help="Its token.", show_default=False)]
Reason = Annotated[str, typer.Option(help="Why: it is recorded.", show_default=False)]

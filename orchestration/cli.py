"""The command `sluice`: its arguments and options. What a command does is in `orchestration.commands`.

Exit codes: 0 done, 1 failed (message, place and hint are on the error stream), 2 bad usage.
"""

from __future__ import annotations

import json
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from cdc_core.errors import SluiceError
from orchestration.cli_client import client
from orchestration.cli_consume import consume
from orchestration.cli_ddl import ddl
from orchestration.cli_maintain import maintain
from orchestration.cli_mirror import mirror
from orchestration.cli_now import now
from orchestration.cli_remake import remake
from orchestration.cli_verify import verify
from orchestration.options import (
    Client,
    Conf,
    DagsterPort,
    FlightPort,
    HttpPort,
    Json,
    LakeRoot,
    Name,
    ServiceOrConf,
    Spark,
    SparkToken,
    Tables,
    Token,
    Url,
    Warm,
)

app = typer.Typer(
    help="Change data capture from MySQL into a Delta lakehouse, operated from Dagster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_LOCAL = "http://127.0.0.1:11112"

destination = typer.Typer(help="Start, stop or reload one destination of the running service.", no_args_is_help=True)
app.add_typer(destination, name="destination")
app.add_typer(ddl, name="ddl")
app.add_typer(client, name="client")


@app.command()
def demo(
    once: Annotated[
        bool, typer.Option("--once", help="End after the comparison; exit code 0 only without a difference.")
    ] = False,
    rate: Annotated[float, typer.Option(min=1, help="Changed rows a second.")] = 500,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds to measure under load.")] = 60,
    http_port: HttpPort = 11112,
    flight_port: FlightPort = 11113,
    dagster_port: DagsterPort = 3000,
    warm: Warm = True,
    as_json: Json = False,
) -> None:
    """Capture a shop on a real MySQL into Delta and compare both. Every server starts and stops with the demo."""
    from orchestration.commands.demo import run
    from orchestration.stack.ports import Ports

    ports = Ports(http_port, flight_port, dagster_port)
    raise typer.Exit(run(ports, rate, seconds, once=once, warm=warm, as_json=as_json))


@app.command()
def up(
    lake: Annotated[str, typer.Option(help="Path or URI of the lake.")],
    conf: Conf = Path("conf"),
    defs: Annotated[Path | None, typer.Option(help="A defs.yaml, or a folder of */defs.yaml.")] = None,
    dagster_port: DagsterPort = 3000,
    warm: Warm = True,
    as_json: Json = False,
) -> None:
    """Run the service, Spark and Dagster on your own configuration and lake until Ctrl-C."""
    from orchestration.commands.up import run

    raise typer.Exit(run(conf, lake, defs, dagster_port, warm=warm, as_json=as_json))


@app.command()
def server(conf: Conf = Path("conf"), as_json: Json = False) -> None:
    """Run the capture service alone, in the foreground."""
    from orchestration.commands.server import run

    raise typer.Exit(run(conf, as_json=as_json))


@app.command()
def status(service: Url = _LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Show the state, position, lag and error of every destination; 1 if one has failed."""
    from orchestration.commands.status import run

    raise typer.Exit(run(service, token, as_json=as_json))


@app.command()
def positions(
    destination: Annotated[
        str | None, typer.Argument(help="One destination; all without it.", show_default=False)
    ] = None,
    service: Url = _LOCAL,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Show every client's cursor and how far it is behind the source; 1 if one is unknown or purged."""
    from orchestration.commands.positions import run

    raise typer.Exit(run(destination, service, token, as_json=as_json))


@app.command()
def reset(
    name: Name,
    position: Annotated[str | None, typer.Option(metavar="FILE:OFFSET", help="The start of a transaction.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="2026-11-21T12:00:00Z, or milliseconds since the epoch: the first transaction of that second, or the "
            "last before it.",
        ),
    ] = None,
    gtid: Annotated[
        str | None, typer.Option(metavar="SET", help="The first transaction that is not in the set.")
    ] = None,
    earliest: Annotated[bool, typer.Option("--earliest", help="The oldest binlog of the source.")] = False,
    latest: Annotated[
        bool, typer.Option("--latest", help="The end of the source; changes before it are skipped.")
    ] = False,
    anew: Annotated[bool, typer.Option("--anew", help="The end; all tables stop until they are reloaded.")] = False,
    client_id: Annotated[int, typer.Option(min=0, help="The client whose cursor is set.")] = 1001,
    all_clients: Annotated[bool, typer.Option("--all", help="Set the cursors of all clients.")] = False,
    moved: Annotated[bool, typer.Option("--moved", help="The source is another server now.")] = False,
    epoch: Annotated[
        int, typer.Option(min=0, help="The least number of the new epoch, where the lake knows of later ones.")
    ] = 0,
    identity: Annotated[str, typer.Option(help="Take over this identity, by which the lake knows its writer.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without it, only show what would happen.")] = False,
    service: Url = _LOCAL,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Set a destination's cursors to another place. Shows what is read again or lost, and does it only with --yes."""
    from orchestration.commands.reset import run
    from orchestration.places import target

    to = target(position, timestamp, gtid, earliest=earliest, latest=latest, anew=anew)
    if to is None:
        places = "--position FILE:OFFSET, --timestamp TIME, --gtid SET, --earliest, --latest, --anew"
        raise typer.BadParameter(f"give one of {places}")
    client = None if all_clients else client_id
    body = {"to": to, "client_id": client, "moved": moved, "epoch": epoch, "identity": identity, "dry_run": not yes}
    raise typer.Exit(run(name, body, service, token, as_json=as_json))


def _switch(verb: Literal["start", "stop", "reload"], name: str, service: str, token: str, as_json: bool) -> NoReturn:
    from orchestration.commands.destination import run

    raise typer.Exit(run(verb, name, service, token, as_json=as_json))


@destination.command()
def start(name: Name, service: Url = _LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Start a destination that was stopped by hand, or is lazy."""
    _switch("start", name, service, token, as_json)


@destination.command()
def stop(name: Name, service: Url = _LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Stop a destination until it is started or its configuration changes. Its claims are rolled back."""
    _switch("stop", name, service, token, as_json)


@destination.command()
def reload(name: Name, service: Url = _LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Restart a destination with its current configuration."""
    _switch("reload", name, service, token, as_json)


app.command()(maintain)
app.command()(verify)
app.command()(now)
app.command()(consume)
app.command()(mirror)
app.command()(remake)


@app.command()
def copy(
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
    """Make tables of the lake anew from the source while the destination goes on, and lift their stops."""
    from orchestration.commands.copy import Order, run

    order = Order(name, tuple(table), lake, conf, client, spark, spark_token, service, token)
    raise typer.Exit(run(order, as_json=as_json))


@app.command()
def snapshot(
    name: Name,
    lake: LakeRoot,
    table: Annotated[
        list[str] | None, typer.Argument(help="database.table; all captured tables without it.", show_default=False)
    ] = None,
    rows_per_chunk: Annotated[int, typer.Option(min=1, help="About how many rows a chunk has.")] = 250_000,
    connections: Annotated[int, typer.Option(min=1, help="Chunks read at once.")] = 4,
    rate: Annotated[
        float | None, typer.Option(min=1, help="The most rows a second; without it, no limit.", show_default=False)
    ] = None,
    replica: Annotated[
        str, typer.Option("--from", metavar="HOST:PORT", help="Read from this replica, by the same account.")
    ] = "",
    read_on: Annotated[
        str,
        typer.Option(
            metavar="driver|executors",
            help="Who reads: this process, or Spark's executors; by default those of a cluster.",
            show_default=False,
        ),
    ] = "",
    cancel: Annotated[bool, typer.Option("--cancel", help="End the tables' open snapshots instead.")] = False,
    conf: Conf = Path("conf"),
    client: Client = 1001,
    spark: Spark = "sc://127.0.0.1:15002",
    spark_token: SparkToken = "",
    service: ServiceOrConf = None,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Bring tables into the lake, or reload them, while the stream goes on; 1 if one could not be.

    Ended in the middle, it goes on where it was when it is called again."""
    from orchestration.commands.copy import Order
    from orchestration.commands.snapshot import run
    from orchestration.jobs.snapshot import replica_of
    from spark_jobs.copy.snapshot import Manner
    from spark_jobs.snapshot.limits import Limits

    order = Order(name, tuple(table or ()), lake, conf, client, spark, spark_token, service, token)
    manner = Manner(rows_per_chunk, Limits(rate, connections), replica_of(replica), read_on)
    raise typer.Exit(run(order, manner, cancel=cancel, as_json=as_json))


@app.callback(invoke_without_command=True)
def _options(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False, as_json: Json = False
) -> None:
    if show:
        number = version("sluice")
        typer.echo(json.dumps({"version": number}) if as_json else f"sluice {number}")
        raise typer.Exit


def main() -> None:
    """The entry point. SIGTERM ends the command as Ctrl-C does: every server that it started is stopped."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app(standalone_mode=True)
    except SluiceError as error:
        _fail(error)


def _terminate(*_: Any) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def _fail(error: SluiceError) -> NoReturn:
    if "--json" in sys.argv:
        print(json.dumps(error.as_dict()))
    else:
        print(f"error: {error.message}", file=sys.stderr)
        if error.place:
            print(f"   at: {error.place}", file=sys.stderr)
        print(f" hint: {error.hint}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()

"""The command `sluice`: its arguments and options. What a command does is in `orchestration.commands`.

Exit codes: 0 done, 1 failed (message, place and hint are on the error stream), 2 bad usage.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from cdc_core.errors import SluiceError
from cdc_core.packages import EXTRAS, missing, version
from orchestration.cli_canal import consume, mirror
from orchestration.cli_drain import drain
from orchestration.cli_monitor import monitor
from orchestration.cli_setup import check, init
from orchestration.cli_verbs import add_verbs
from orchestration.options import (
    LOCAL,
    Client,
    Conf,
    DagsterPort,
    FlightPort,
    HttpPort,
    Json,
    LakeRoot,
    Name,
    ServiceOrConf,
    SomeLake,
    Spark,
    SparkToken,
    Token,
    Url,
    Warm,
)

app = typer.Typer(
    help="Change data capture from MySQL into a Delta lakehouse, operated from Dagster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

destination = typer.Typer(help="Start, stop or reload one destination of the running service.", no_args_is_help=True)
app.add_typer(destination, name="destination")
client = typer.Typer(help="The clients of a destination of the running service.", no_args_is_help=True)
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
def status(service: Url = LOCAL, token: Token = "", lake: SomeLake = None, as_json: Json = False) -> None:
    """Show the state, position, lag and error of every destination; with the lake, the rows that wait in quarantines.

    Exit code 1: a destination has failed."""
    from orchestration.commands.status import run

    raise typer.Exit(run(service, token, as_json=as_json, lake=lake))


@app.command()
def alert(
    name: Name,
    defs: Annotated[Path, typer.Option(envvar="SLUICE_DEFS", help="A defs.yaml, or a folder of */defs.yaml.")],
    test: Annotated[bool, typer.Option("--test", help="Send a test message to each receiver.")] = False,
    client: Client = 1001,
    as_json: Json = False,
) -> None:
    """Show where the alerts of a destination go; with --test, send a message there.

    Exit code 1: a URL is wrong, or a receiver did not take the message."""
    from orchestration.commands.alert import run
    from orchestration.loading import load_settings

    raise typer.Exit(run(load_settings(defs, name, client), test=test, as_json=as_json))


@app.command()
def positions(
    destination: Annotated[
        str | None, typer.Argument(help="One destination. Default: all.", show_default=False)
    ] = None,
    service: Url = LOCAL,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Show every client's cursor and how far it is behind the source.

    Exit code 1: a cursor is unknown to the source, or its binlog is purged there."""
    from orchestration.commands.positions import run

    raise typer.Exit(run(destination, service, token, as_json=as_json))


def _switch(verb: Literal["start", "stop", "reload"], name: str, service: str, token: str, as_json: bool) -> NoReturn:
    from orchestration.commands.status import switch

    raise typer.Exit(switch(verb, name, service, token, as_json=as_json))


@destination.command()
def start(name: Name, service: Url = LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Start a destination that was stopped by an operator, or is lazy."""
    _switch("start", name, service, token, as_json)


@destination.command()
def stop(name: Name, service: Url = LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Stop a destination until it is started or its configuration changes. Its claims are rolled back."""
    _switch("stop", name, service, token, as_json)


@destination.command()
def reload(name: Name, service: Url = LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Restart a destination with its current configuration."""
    _switch("reload", name, service, token, as_json)


add_verbs(app)


@client.command("list")
def show_clients(name: Name, service: Url = LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Show the subscribed clients: cursor, backlog, outstanding batches, and who holds the others up."""
    from orchestration.commands.client import show

    raise typer.Exit(show(name, service, token, as_json=as_json))


@client.command("remove")
def remove_client(
    name: Name,
    client_id: Annotated[int, typer.Argument(min=0, help="The client's number.", show_default=False)],
    service: Url = LOCAL,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Forget a client and its cursor, so that it holds nothing back. One that is configured stays."""
    from orchestration.commands.client import remove

    raise typer.Exit(remove(name, client_id, service, token, as_json=as_json))


@app.command()
def now(
    name: Name,
    lake: LakeRoot,
    table: Annotated[
        list[str] | None, typer.Argument(help="database.table. Default: all with a change log.", show_default=False)
    ] = None,
    client: Client = 1001,
    as_of: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="As of this place instead, all tables of one transaction: a position, GTIDs, a time, the number of a "
            "batch, or latest.",
        ),
    ] = "",
    nearest: Annotated[
        bool, typer.Option("--nearest", help="With --as-of: at the last earlier place that all tables have.")
    ] = False,
    create: Annotated[bool, typer.Option("--create", help="With --as-of: also make the views in Spark.")] = False,
    spark: Spark = "sc://127.0.0.1:15002",
    spark_token: SparkToken = "",
    as_json: Json = False,
) -> None:
    """Print the SQL of the views that show tables as of the end of their change logs, or as of a place."""
    if as_of:
        from orchestration.commands import as_of as command

        done = command.run(
            name, tuple(table or ()), lake, client, as_of, spark, spark_token,
            nearest=nearest, create=create, as_json=as_json,
        )  # fmt: skip
        raise typer.Exit(done)
    if nearest or create:
        raise typer.BadParameter("--nearest and --create need --as-of")
    from orchestration.commands.now import run

    raise typer.Exit(run(name, tuple(table or ()), lake, client, as_json=as_json))


@app.command()
def explain(
    name: Name,
    lake: LakeRoot,
    table: Annotated[
        list[str] | None, typer.Argument(help="database.table. Default: all that changed.", show_default=False)
    ] = None,
    batch: Annotated[str, typer.Option(metavar="N|N..M", help="This batch, or these.", show_default=False)] = "",
    position: Annotated[
        str, typer.Option(metavar="F:O", help="The transaction at this position.", show_default=False)
    ] = "",
    gtid: Annotated[str, typer.Option(metavar="GTID", help="This transaction.", show_default=False)] = "",
    time: Annotated[
        str, typer.Option(metavar="TIME", help="The batch in which this time was reached.", show_default=False)
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="The most transactions, tables, and rows of a table.")] = 20,
    binlog: Annotated[bool, typer.Option("--binlog/--no-binlog", help="Also read the source's binlog again.")] = True,
    conf: Conf = Path("conf"),
    client: Client = 1001,
    service: ServiceOrConf = None,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Show what a batch or a transaction changed: rows before and after, statements, versions of tables."""
    from orchestration.commands.explain import run
    from orchestration.commands.verb import access_of
    from spark_jobs.past.asked import AskedPast

    asked = {"batch": batch, "position": position, "gtid": gtid, "time": time}
    if sum(map(bool, asked.values())) != 1:
        raise typer.BadParameter("give one of --batch, --position, --gtid and --time")
    at = access_of(name, lake=lake, conf=conf, client=client, service=service, token=token)
    raise typer.Exit(run(at, tuple(table or ()), AskedPast(**asked), limit, binlog=binlog, as_json=as_json))


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="A query of Spark SQL, in quotes.", show_default=False)],
    limit: Annotated[int, typer.Option(min=0, help="The most rows that are shown; 0: all.")] = 100,
    spark: Spark = "sc://127.0.0.1:15002",
    spark_token: SparkToken = "",
    as_json: Json = False,
) -> None:
    """Print the rows of a query, which can only read. With --json, an object for each row."""
    from orchestration.commands.sql import run

    raise typer.Exit(run(query, spark, spark_token, limit, as_json=as_json))


app.command()(check)
app.command()(init)
app.command()(drain)
app.command()(consume)
app.command()(mirror)
app.command()(monitor)


@app.callback(invoke_without_command=True)
def _options(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False, as_json: Json = False
) -> None:
    if show:
        number = version()
        typer.echo(json.dumps({"version": number}) if as_json else f"sluice {number}")
        raise typer.Exit


def main() -> None:
    """The entry point. SIGTERM ends the command as Ctrl-C does: every server that it started is stopped."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts programs so in the background
        signal.signal(signal.SIGINT, lambda *_: None)  # servers do not inherit it; Dagster's ignored SIGTERM too
    try:
        app(prog_name="sluice")
    except SluiceError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS:
            raise
        _fail(missing(error, error.name or "", f"sluice {' '.join(sys.argv[1:2])}"))


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

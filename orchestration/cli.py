"""The command `sluice`: what to type, and nothing of what it does.

Exit codes: 0 done, 1 failed (with message, place and remedy on the error stream), 2 bad usage.
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

app = typer.Typer(
    help="Change data capture from MySQL into a Delta lakehouse, operated from Dagster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Conf = Annotated[Path, typer.Option(help="Directory of canal.properties and */instance.properties.")]
HttpPort = Annotated[int, typer.Option(help="The service's page and control.")]
FlightPort = Annotated[int, typer.Option(help="The service's data.")]
DagsterPort = Annotated[int, typer.Option(help="Dagster's page.")]
Url = Annotated[str, typer.Option("--service", envvar="SLUICE_SERVICE", help="Address of the service's HTTP door.")]
Token = Annotated[str, typer.Option(envvar="SLUICE_TOKEN", help="Bearer token.", show_default=False)]
Name = Annotated[str, typer.Argument(help="The destination.", show_default=False)]
_LOCAL = "http://127.0.0.1:11112"

destination = typer.Typer(help="Starts, stops or reloads one destination of the service.", no_args_is_help=True)
app.add_typer(destination, name="destination")


@app.command()
def demo(
    once: Annotated[bool, typer.Option("--once", help="End after the verify; 0 only if it is clean.")] = False,
    rate: Annotated[float, typer.Option(min=1, help="Changed rows a second.")] = 500,
    seconds: Annotated[float, typer.Option(min=1, help="How long to measure under load.")] = 60,
    http_port: HttpPort = 11112,
    flight_port: FlightPort = 11113,
    dagster_port: DagsterPort = 3000,
    as_json: Json = False,
) -> None:
    """The whole way on real servers that start and stop with it: a shop on MySQL, captured into Delta, verified."""
    from orchestration.commands.demo import run
    from orchestration.stack.ports import Ports

    raise typer.Exit(run(Ports(http_port, flight_port, dagster_port), rate, seconds, once=once, as_json=as_json))


@app.command()
def up(
    lake: Annotated[str, typer.Option(help="Path or URI of the lake.")],
    conf: Conf = Path("conf"),
    defs: Annotated[Path | None, typer.Option(help="A defs.yaml, or a folder of */defs.yaml.")] = None,
    dagster_port: DagsterPort = 3000,
    as_json: Json = False,
) -> None:
    """The service, Spark and Dagster on your own configuration and lake, until Ctrl-C."""
    from orchestration.commands.up import run

    raise typer.Exit(run(conf, lake, defs, dagster_port, as_json=as_json))


@app.command()
def server(conf: Conf = Path("conf"), as_json: Json = False) -> None:
    """The capture service alone, in the foreground."""
    from orchestration.commands.server import run

    raise typer.Exit(run(conf, as_json=as_json))


@app.command()
def status(service: Url = _LOCAL, token: Token = "", as_json: Json = False) -> None:
    """What each destination does, how far it is, and what ails it; 1 if one has failed."""
    from orchestration.commands.status import run

    raise typer.Exit(run(service, token, as_json=as_json))


@app.command()
def positions(
    destination: Annotated[str | None, typer.Argument(help="One destination; else all.", show_default=False)] = None,
    service: Url = _LOCAL,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Every client's cursor and how far it is behind the source's end; 1 if one cannot be told or was purged."""
    from orchestration.commands.positions import run

    raise typer.Exit(run(destination, service, token, as_json=as_json))


@app.command()
def reset(
    name: Name,
    position: Annotated[str | None, typer.Option(metavar="FILE:OFFSET", help="Where a transaction begins.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="2026-11-21T12:00:00Z, or milliseconds: the last before it.")
    ] = None,
    gtid: Annotated[str | None, typer.Option(metavar="SET", help="The first transaction that it lacks.")] = None,
    earliest: Annotated[bool, typer.Option("--earliest", help="The oldest binlog that the source has.")] = False,
    latest: Annotated[bool, typer.Option("--latest", help="The source's end; what lies before is skipped.")] = False,
    client_id: Annotated[int, typer.Option(min=0, help="Whose cursor.")] = 1001,
    all_clients: Annotated[bool, typer.Option("--all", help="All clients' cursors.")] = False,
    moved: Annotated[bool, typer.Option("--moved", help="The source is another server now.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; else it is only told.")] = False,
    service: Url = _LOCAL,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Sets a destination's cursors to another place; tells what is read again or lost, and does it with --yes."""
    from orchestration.commands.reset import run, target

    to = target(position, timestamp, gtid, earliest=earliest, latest=latest)
    if to is None:
        raise typer.BadParameter(
            "give one of --position FILE:OFFSET, --timestamp TIME, --gtid SET, --earliest, --latest"
        )
    body = {"to": to, "client_id": None if all_clients else client_id, "moved": moved, "dry_run": not yes}
    raise typer.Exit(run(name, body, service, token, as_json=as_json))


def _switch(verb: Literal["start", "stop", "reload"], name: str, service: str, token: str, as_json: bool) -> NoReturn:
    from orchestration.commands.destination import run

    raise typer.Exit(run(verb, name, service, token, as_json=as_json))


@destination.command()
def start(name: Name, service: Url = _LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Starts one that was stopped by hand, or is lazy."""
    _switch("start", name, service, token, as_json)


@destination.command()
def stop(name: Name, service: Url = _LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Stops one until it is started or its configuration changes; its claims go back."""
    _switch("stop", name, service, token, as_json)


@destination.command()
def reload(name: Name, service: Url = _LOCAL, token: Token = "", as_json: Json = False) -> None:
    """Begins anew with the configuration as it is now."""
    _switch("reload", name, service, token, as_json)


@app.command()
def verify(
    lake: Annotated[str, typer.Option(help="Path or URI of the lake.")],
    conf: Conf = Path("conf"),
    destination: Annotated[str | None, typer.Option(help="One destination; else all of the configuration.")] = None,
    table: Annotated[list[str] | None, typer.Option(help="database.table, again for more; else all captured.")] = None,
    client: Annotated[int, typer.Option(help="The client whose cursor the lake follows.")] = 1001,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for the lake to catch up.")] = 60,
    service: Annotated[str | None, typer.Option(help="The service's address; else from the configuration.")] = None,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Compares source and lake at one position, a JSON line a table; 1 if they differ."""
    from orchestration.commands.verify import Question, run

    question = Question(lake, conf, destination, tuple(table or ()), client, timeout, service, token)
    raise typer.Exit(run(question, as_json=as_json))


@app.callback(invoke_without_command=True)
def _options(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False, as_json: Json = False
) -> None:
    if show:
        number = version("sluice")
        typer.echo(json.dumps({"version": number}) if as_json else f"sluice {number}")
        raise typer.Exit


def main() -> None:
    """The entry point. A SIGTERM ends like a Ctrl-C: whatever was started is stopped on the way out."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        app(standalone_mode=True)
    except SluiceError as error:
        _fail(error)


def _terminated(*_: Any) -> NoReturn:
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

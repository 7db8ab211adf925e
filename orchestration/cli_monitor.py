"""The arguments and options of `sluice monitor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.options import Json

_ZOOKEEPER = "A cluster: host:port of each ZooKeeper, with commas, and /chroot. Give it for each cluster."
_FILE = "A MySQL option file: \\[client] for all sources, \\[HOST:PORT] for one, as the cursors name it."


def monitor(
    zookeeper: Annotated[list[str], typer.Option(help=_ZOOKEEPER)],
    once: Annotated[bool, typer.Option("--once", help="Look once, print tables, and end.")] = False,
    every: Annotated[float, typer.Option(min=1, help="Seconds between two looks.")] = 5,
    zookeeper_auth: Annotated[
        str, typer.Option(envvar="SLUICE_ZK_AUTH", help="user:password for ZooKeeper.", show_default=False)
    ] = "",
    mysql_user: Annotated[
        str, typer.Option(envvar="SLUICE_MYSQL_USER", help="The account for MySQL. Default: MySQL is not asked.")
    ] = "",
    mysql_password: Annotated[
        str, typer.Option(envvar="SLUICE_MYSQL_PASSWORD", help="Its password.", show_default=False)
    ] = "",
    mysql_file: Annotated[Path | None, typer.Option(help=_FILE)] = None,
    lag: Annotated[str, typer.Option(help="How far a client may be behind: 30s, 5m, 12h or 2d.")] = "5m",
    lag_bytes: Annotated[int, typer.Option(min=0, help="The same in bytes of binlog; 0: no limit.")] = 0,
    no_client: Annotated[str, typer.Option(help="How long a backlog may wait without a reader.")] = "5m",
    binlog: Annotated[
        str,
        typer.Option(
            help="How long before a client's binlog file may be purged. Default: a tenth of its time.",
            show_default=False,
        ),
    ] = "",
    changes: Annotated[int, typer.Option(min=1, help="How many take-overs of a destination are too many...")] = 3,
    within: Annotated[str, typer.Option(help="... within this time.")] = "10m",
    ignore: Annotated[
        list[str] | None, typer.Option(help="A destination to leave out; * stands for any text.", show_default=False)
    ] = None,
    alarm_env: Annotated[
        list[str] | None,
        typer.Option(help="Send alarms to the apprise URL in this environment variable.", show_default=False),
    ] = None,
    alarm_file: Annotated[
        list[Path] | None, typer.Option(help="The same with a file that has the URL.", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option(help="Where the page is; other hosts than this one need a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Its port.")] = 11115,
    token: Annotated[
        str, typer.Option(envvar="SLUICE_MONITOR_TOKEN", help="Visitors of the page must give it.", show_default=False)
    ] = "",
    tls_certificate: Annotated[Path | None, typer.Option(help="A PEM file, for https.", show_default=False)] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Watch clusters of Sluice's servers and of Java Canal's: who runs what, clients, lag, and what is wrong.

    Without --once: a page and /metrics, until Ctrl-C. docs/monitor.md.

    Exit code 1 with --once: something is wrong."""
    from orchestration.commands.monitor import MonitorCall, ServeCall, run

    call = MonitorCall(
        tuple(zookeeper), every, zookeeper_auth, mysql_user, mysql_password, mysql_file,
        lag, lag_bytes, no_client, binlog, changes, within, tuple(ignore or ()),
    )  # fmt: skip
    serve = ServeCall(host, port, token, tls_certificate, tls_key, tuple(alarm_env or ()), tuple(alarm_file or ()))
    raise typer.Exit(run(call, serve, once=once, as_json=as_json))

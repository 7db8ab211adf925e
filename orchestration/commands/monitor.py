"""`sluice monitor`: clusters of Sluice's and of Java Canal's servers, in one place."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from cdc_core.errors import ConfigError
from cdc_core.monitor.alarms import Alarms
from cdc_core.monitor.lag import ClientLag
from cdc_core.monitor.looking import ClusterMonitor, Findings
from cdc_core.monitor.rules import AlarmLimits, Trouble
from cdc_core.monitor.sources import MySqlAccounts, accounts_in
from cdc_core.monitor.views import ClientView, ClusterView, DestinationView
from orchestration.commands.text import number, place, position, table, text
from orchestration.freshness import parse_length

_PATIENCE = 2.0  # seconds that a look waits for
_ONCE_SECONDS = 10.0  # that a cluster or a source may take to answer, with --once


@dataclass(frozen=True, slots=True)
class MonitorCall:
    """What the command was given."""

    clusters: tuple[str, ...]
    every: float = 5.0
    auth: str = field(default="", repr=False)
    mysql_user: str = ""
    mysql_password: str = field(default="", repr=False)
    mysql_file: Path | None = None
    lag: str = "5m"
    lag_bytes: int = 0
    no_client: str = "5m"
    binlog: str = ""
    changes: int = 3
    within: str = "10m"
    ignored: tuple[str, ...] = ()

    def limits(self) -> AlarmLimits:
        """Raises ConfigError."""
        return AlarmLimits(
            lag=_seconds("--lag", self.lag),
            lag_bytes=self.lag_bytes,
            no_client=_seconds("--no-client", self.no_client),
            binlog=_seconds("--binlog", self.binlog) if self.binlog else 0.0,
            changes=self.changes,
            changes_seconds=_seconds("--within", self.within),
        )

    def accounts(self) -> MySqlAccounts:
        """Raises ConfigError."""
        if self.mysql_file is None:
            return MySqlAccounts.of(self.mysql_user, self.mysql_password)
        if self.mysql_user:
            hint = "Write the account into the file's [client]."
            raise ConfigError("give --mysql-user or --mysql-file", place=str(self.mysql_file), hint=hint)
        return accounts_in(self.mysql_file)

    def opened(self, patience: float) -> ClusterMonitor:
        """Raises ConfigError."""
        names = [_cluster(one) for one in self.clusters]
        if len(set(names)) < len(names):
            raise ConfigError("a cluster is given twice", place=", ".join(names), hint="Give each --zookeeper once.")
        return ClusterMonitor(
            names,
            self.accounts(),
            auth=self.auth,
            limits=self.limits(),
            every=self.every,
            ignored=self.ignored,
            patience=patience,
        )


def run(call: MonitorCall, *, once: bool, as_json: bool) -> int:
    """Returns 1 if something is wrong, with `once`; else looks until Ctrl-C. Raises ConfigError."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # that ZooKeeper is away is in each look
    monitor = call.opened(_ONCE_SECONDS if once else min(call.every, _PATIENCE))
    try:
        if not once:
            return _watch(monitor, as_json=as_json)
        found = monitor.look()
    finally:
        monitor.close()
    if as_json:
        print(json.dumps(facts(found)))
    else:
        show(found)
    return 1 if found.verdict.troubles else 0


def _watch(monitor: ClusterMonitor, *, as_json: bool) -> int:
    """Prints a line for each alarm that begins or ends."""
    lines = _AlarmLines(as_json=as_json)
    with suppress(KeyboardInterrupt):
        monitor.run(lines.show, threading.Event())
    return 0


class _AlarmLines:
    def __init__(self, *, as_json: bool) -> None:
        self._as_json, self._before, self._looked = as_json, Alarms(), False

    def show(self, found: Findings) -> None:
        if not self._looked and not self._as_json:
            for cluster in found.picture.clusters:
                print(f"{cluster.name}: {cluster.away or _sum(cluster)}", flush=True)
        self._looked = True
        for key, alarm in found.alarms.now.items():
            if key not in self._before.now:
                self._line("begins", alarm.trouble, alarm.began)
        for key, alarm in self._before.now.items():
            if key not in found.alarms.now:
                self._line("ends", alarm.trouble, found.picture.at)
        self._before = found.alarms

    def _line(self, what: str, trouble: Trouble, at: float) -> None:
        if self._as_json:
            print(json.dumps({"at": at, "alarm": what, **asdict(trouble)}), flush=True)
            return
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
        text = f": {trouble.text}" if what == "begins" else ""
        print(f"{when} {trouble.kind} {what}: {trouble.cluster} {trouble.subject}{text}", flush=True)


def _seconds(option: str, given: str) -> float:
    try:
        return parse_length(given)
    except ValueError as error:
        raise ConfigError(f"{given!r} {error}", place=option, hint="For example 5m.") from None


def _cluster(hosts: str) -> str:
    name = hosts.strip().rstrip("/")
    first = name.partition("/")[0]
    ports = [one.rpartition(":")[2] for one in first.split(",") if ":" in one]
    if not first or not all(one.isdigit() for one in ports) or any(not one for one in first.split(",")):
        hint = "Give host:port of each ZooKeeper, with commas, and /chroot: zk1:2181,zk2:2181/canal/g1."
        raise ConfigError(f"{hosts!r} names no ZooKeeper", place="--zookeeper", hint=hint)
    return name


def show(found: Findings) -> None:
    """Prints a table for each cluster, then what is wrong."""
    console = Console()
    for cluster in found.picture.clusters:
        console.print(Text.assemble((cluster.name, "bold"), f": {cluster.away or _sum(cluster)}"), soft_wrap=True)
        for server in cluster.servers:
            console.print(Text(f"  {server.address}  {server.http or 'a Java Canal server'}"), soft_wrap=True)
        if cluster.destinations:
            columns = table(text("destination"), number("client"), position("cursor"), text("behind"))
            for destination in cluster.destinations:
                for name, client in _rows(destination):
                    columns.add_row(*_cells(found, cluster, destination, name, client))
            console.print(columns)
    for trouble in found.verdict.troubles:
        where = f"{trouble.cluster} {trouble.subject}"
        console.print(Text.assemble((f"{trouble.kind} ", "red"), f"{where}: {trouble.text}"), soft_wrap=True)
        if trouble.remedy:
            console.print(Text(f" hint: {trouble.remedy}"), soft_wrap=True)


def _sum(cluster: ClusterView) -> str:
    clients = sum(len(one.clients) for one in cluster.destinations)
    counts = ((len(cluster.servers), "server"), (len(cluster.destinations), "destination"), (clients, "client"))
    return ", ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for count, what in counts)


def _rows(destination: DestinationView) -> Iterator[tuple[Text, ClientView | None]]:
    """A row for each client, at least one; the first has the name and who runs it."""
    runs = destination.holder.address if destination.holder else "no server"
    standby = f"\n {len(destination.standby)} standby" if destination.standby else ""
    name = Text.assemble((destination.name, "bold"), f"\n {runs}{standby}")
    for client in destination.clients or (None,):
        yield name, client
        name = Text("")


def _cells(
    found: Findings, cluster: ClusterView, destination: DestinationView, name: Text, client: ClientView | None
) -> tuple[Text | str, ...]:
    if client is None:
        return name, "-", "-", "no client has subscribed"
    lag = found.picture.lag((cluster.name, destination.name, client.client_id))
    reader = f"\nread by {client.running.address}" if client.running else ""
    cursor = client.cursor.postion if client.cursor else None
    return name, str(client.client_id), place(cursor), f"{distance(lag)}{reader}"


def distance(lag: ClientLag) -> str:
    """How far the client is behind, for people."""
    if lag.nbytes is None:
        return lag.why
    parts = [f"{lag.nbytes:,} bytes"]
    if lag.seconds is not None:
        parts.append(f"{lag.seconds:,.0f} s")
    if lag.files:
        parts.append(f"{lag.files:,} files")
    if lag.left_seconds is not None:
        parts.append(f"{max(0.0, lag.left_seconds) / 3600:,.1f} h until its file may be purged")
    return ", ".join(parts)


def facts(found: Findings) -> dict[str, Any]:
    """The same for programs."""
    return {
        "clusters": [_cluster_facts(found, one) for one in found.picture.clusters],
        "sources": [
            {
                "address": one.address,
                "end": one.journals.end.to_dict() if one.journals else None,
                "files": len(one.journals.logs) if one.journals else None,
                "seconds_behind": one.behind,
                "error": one.error,
            }
            for one in found.picture.sources.values()
        ],
        "alarms": [asdict(one) for one in found.verdict.troubles],
    }


def _cluster_facts(found: Findings, cluster: ClusterView) -> dict[str, Any]:
    destinations = [
        {
            "name": one.name,
            "runs_at": one.holder.address if one.holder else None,
            "standby": list(one.standby),
            "problems": list(one.problems),
            "clients": [_client_facts(found, cluster, one, client) for client in one.clients],
        }
        for one in cluster.destinations
    ]
    servers = [{"address": one.address, "kind": one.kind, "http": one.http} for one in cluster.servers]
    return {"name": cluster.name, "away": cluster.away, "servers": servers, "destinations": destinations}


def _client_facts(
    found: Findings, cluster: ClusterView, destination: DestinationView, client: ClientView
) -> dict[str, Any]:
    return {
        "client_id": client.client_id,
        "cursor": client.cursor.postion.to_dict() if client.cursor else None,
        "source": client.source,
        "read_by": client.running.address if client.running else None,
        "filter": client.filter,
        "lag": asdict(found.picture.lag((cluster.name, destination.name, client.client_id))),
    }

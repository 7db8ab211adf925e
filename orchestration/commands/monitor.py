"""`sluice monitor`: clusters of Sluice's and of Java Canal's servers, in one place."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cdc_core.errors import ConfigError
from cdc_core.monitor.alarms import Alarms
from cdc_core.monitor.door import monitor_door
from cdc_core.monitor.history import LagHistory
from cdc_core.monitor.looking import ClusterMonitor, Findings
from cdc_core.monitor.rules import AlarmLimits, Trouble
from cdc_core.monitor.sources import MySqlAccounts, accounts_in
from orchestration.alerts.monitored import MonitorAlarms, NamedReceiver
from orchestration.commands.monitor_tables import facts, show, sum_of
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


@dataclass(frozen=True, slots=True)
class ServeCall:
    """Where the page is, who may see it, and who gets messages: environment variables and files with URLs."""

    host: str = "127.0.0.1"
    port: int = 11115
    token: str = field(default="", repr=False)
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    alarm_env: tuple[str, ...] = ()
    alarm_file: tuple[Path, ...] = ()

    def alarms(self) -> MonitorAlarms:
        named = [NamedReceiver(url_env=one) for one in self.alarm_env]
        return MonitorAlarms([*named, *(NamedReceiver(url_file=str(one)) for one in self.alarm_file)])

    def tls(self) -> tuple[Path, Path] | None:
        """Raises ConfigError."""
        if self.tls_certificate and self.tls_key:
            return self.tls_certificate, self.tls_key
        if self.tls_certificate or self.tls_key:
            hint = "Give --tls-certificate and --tls-key."
            raise ConfigError("a certificate needs its key", place="--tls-certificate", hint=hint)
        return None


def run(call: MonitorCall, serve: ServeCall, *, once: bool, as_json: bool) -> int:
    """Returns 1 if something is wrong, with `once`; else looks until Ctrl-C. Raises ConfigError."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # that ZooKeeper is down is in each look
    monitor = call.opened(_ONCE_SECONDS if once else min(call.every, _PATIENCE))
    try:
        if not once:
            return _watch(monitor, serve, as_json=as_json)
        found = monitor.look()
    finally:
        monitor.close()
    if as_json:
        print(json.dumps(facts(found)))
    else:
        show(found)
    return 1 if found.verdict.troubles else 0


def _watch(monitor: ClusterMonitor, serve: ServeCall, *, as_json: bool) -> int:
    """Serves the page, and prints a line for each alarm that begins or ends."""
    lines, history, alarms = _AlarmLines(as_json=as_json), LagHistory(), serve.alarms()

    def on_look(found: Findings) -> None:
        history.add(found.picture)
        alarms.look(found)
        lines.show(found)
        lines.say_once(alarms.notes())

    door = monitor_door(monitor, history, serve.host, serve.port, serve.token or None, serve.tls(), alarms.notes)
    alarms.start()
    door.start()
    lines.begin(door.url)
    try:
        with suppress(KeyboardInterrupt):
            monitor.run(on_look, threading.Event())
    finally:
        door.stop()
        alarms.stop()
    return 0


class _AlarmLines:
    def __init__(self, *, as_json: bool) -> None:
        self._as_json, self._before, self._looked = as_json, Alarms(), False
        self._notes: list[str] = []

    def say_once(self, notes: list[str]) -> None:
        """Prints each note when it is new, on the error stream."""
        for one in notes:
            if one not in self._notes:
                print(f"error: {one}", file=sys.stderr, flush=True)
        self._notes = notes

    def begin(self, url: str) -> None:
        print(json.dumps({"page": url}) if self._as_json else f"page: {url}", flush=True)

    def show(self, found: Findings) -> None:
        if not self._looked and not self._as_json:
            for cluster in found.picture.clusters:
                print(f"{cluster.name}: {cluster.away or sum_of(cluster)}", flush=True)
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

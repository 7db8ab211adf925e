"""All destinations of one configuration directory, and the service around them.

`CanalServer` is used in process as well; the doors are thin over it. Every `canal.auto.scan.interval` seconds it looks
at the directory again: new destinations start, changed ones start anew, removed ones stop. A destination that cannot
be set up fails alone. What canal.properties says of the service itself is read once.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from cdc_core import config as configuration
from cdc_core import log as logging
from cdc_core import memory
from cdc_core.config import InstanceConfig, Report, ServiceConfig
from cdc_core.errors import ConfigError, SluiceError, UnknownDestination
from cdc_core.ha.cluster import Cluster
from cdc_core.ha.led import Led
from cdc_core.ha.standby import Standby
from cdc_core.instance import Instance
from cdc_core.meta.file import FileNodes
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.refused import Refused
from cdc_core.sink.filter import make_filter

log = structlog.get_logger(__name__)


class CanalServer:
    """The mutable state is `_running`: for each destination what it was made from, and what runs."""

    def __init__(self, config: ServiceConfig, conf_dir: Path | None = None) -> None:
        self.config = config
        self._conf_dir = conf_dir or config.conf_dir
        self._running: dict[str, tuple[InstanceConfig | str, Instance | Led | Refused]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._scanner: threading.Thread | None = None
        self._zookeeper: ZookeeperNodes | None = None
        self._cluster: Cluster | None = None
        self._reported: set[str] = set()
        self._loaded = self._started = False

    def __repr__(self) -> str:
        return f"<CanalServer {', '.join(self.destinations()) or 'no destinations'}>"

    def load(self) -> None:
        """Sets the destinations up without starting any."""
        if self.config.zk_servers:
            auth, session = self.config.zk_auth.get_secret_value(), self.config.zk_session_seconds
            self._zookeeper = ZookeeperNodes(self.config.zk_servers, auth, session)
            self._cluster = Cluster(self._zookeeper, self.config, self.destinations)
        self._loaded = True
        self.scan()

    def start(self) -> None:
        if not self._loaded:
            self.load()
        if self._cluster is not None:
            self._cluster.start()
        with self._lock:
            self._started = True
            for _, instance in self._running.values():
                instance.start()
        if self.config.auto_scan:
            self._scanner = threading.Thread(target=self._keep_scanning, name="scan", daemon=True)
            self._scanner.start()

    def stop(self) -> None:
        self._stop.set()
        if self._cluster is not None:
            self._cluster.withdraw()
        with self._lock:
            for _, instance in self._running.values():
                instance.stop()
        if self._zookeeper is not None:
            self._zookeeper.close()

    def destinations(self) -> list[str]:
        return sorted(self._running)

    def instance(self, name: str) -> Instance | Standby | Refused:
        found = self._running.get(name)
        if found is None:
            raise UnknownDestination(
                f"no destination {name!r}",
                place=str(self._conf_dir),
                hint=f"Known: {', '.join(self.destinations()) or 'none'}. Add {name}/instance.properties to have it.",
            )
        return found[1].current if isinstance(found[1], Led) else found[1]

    def scan(self) -> None:
        """Brings what runs in line with the directory."""
        with self._lock:
            names = configuration.destinations(self.config)
            for name in [name for name in self._running if name not in names]:
                self._end(name, "removed")
                del self._running[name]
            for name in names:
                self._look_at(name)

    def _keep_scanning(self) -> None:
        while not self._stop.wait(self.config.auto_scan_interval):
            self.scan()

    def _look_at(self, name: str) -> None:
        wanted: InstanceConfig | str
        try:
            config, report = configuration.load_instance(self._conf_dir, name)
            self._report(report)
            wanted, make = config, lambda: self._make(config)
        except ConfigError as error:
            refused = Refused(name, error)
            wanted, make = str(error), lambda: refused  # type: ignore[assignment,return-value]
        if name in self._running and self._running[name][0] == wanted:
            return
        if name in self._running:
            self._end(name, "changed")
        self._begin(name, wanted, make)

    def _begin(self, name: str, wanted: InstanceConfig | str, make: Callable[[], Instance | Led | Refused]) -> None:
        try:
            instance = make()
        except ConfigError as error:  # e.g. a filter that does not compile
            instance = Refused(name, error)
        if isinstance(instance, Refused):
            log.error("destination refused", destination=name, **instance.error.as_dict())
        self._running[name] = (wanted, instance)
        if self._started:
            instance.start()

    def _end(self, name: str, why: str) -> None:
        log.info("destination stops", destination=name, why=why)
        self._running[name][1].stop()
        if self._cluster is not None:
            self._cluster.unwant(name)

    def _make(self, config: InstanceConfig) -> Instance | Led:
        """With ZooKeeper a destination runs where it is won. Raises ConfigError."""
        if self._cluster is None:
            return Instance(config, FileNodes(self.config.data_dir / config.destination / "cursors.json"))
        make_filter(config.filter_regex, config.filter_black_regex)  # a bad one is told now, not in our turn
        self._cluster.want(config.destination)
        return self._cluster.led(config, lambda nodes: Instance(config, nodes))

    def _report(self, report: Report) -> None:
        report_keys(report, self._reported)


def report_keys(report: Report, known: set[str]) -> None:
    """Tells once of each key that has no effect."""
    for keys, message in ((report.unknown, "unknown keys"), (report.unsupported, "keys of Canal without effect here")):
        if new := [key for key in keys if key not in known]:
            log.warning(message, keys=new)
            known.update(new)


def token_of(config: ServiceConfig) -> str | None:
    """The bearer token, from the key or from the file that it names."""
    if config.token_file is None:
        return config.token.get_secret_value() or None
    try:
        token = config.token_file.read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(
            f"cannot read the token: {error.strerror}", place=f"sluice.token.file={config.token_file}", hint="Mend it."
        ) from error
    if not token:
        raise ConfigError("the token is empty", place=str(config.token_file), hint="Write the token into the file.")
    return token


def serve(conf_dir: Path, stop: threading.Event | None = None) -> int:
    """Runs the service until SIGTERM or SIGINT. The exit code: 0, or 1 with the reason on stderr."""
    stop = stop or threading.Event()
    logging.configure()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
    try:
        _run(conf_dir, stop)
    except SluiceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(conf_dir: Path, stop: threading.Event) -> None:
    from cdc_core.doors.flight import FlightDoor
    from cdc_core.doors.http import HttpDoor
    from cdc_core.doors.traffic import Traffic

    memory.give_back()
    config, report = configuration.load_service(conf_dir)
    token, traffic = token_of(config), Traffic()
    server = CanalServer(config, conf_dir)
    report_keys(report, server._reported)
    doors = (
        HttpDoor(server, config.host, config.http_port, token, traffic),
        FlightDoor(server, config.host, config.flight_port, token, traffic),
    )
    try:
        server.load()  # so that no door opens on nothing, and no source is read behind a door that cannot open
        for door in doors:
            door.start()
        memory.forget_compiler()
        server.start()
        log.info("serving", http=doors[0].url, flight=doors[1].port, destinations=server.destinations())
        stop.wait()
    finally:
        for door in doors:
            door.stop()
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="cdc_core.server", description="Serves the destinations of a conf directory.")
    parser.add_argument("--conf", type=Path, default=Path("conf"), help="directory with canal.properties")
    sys.exit(serve(parser.parse_args().conf))


if __name__ == "__main__":
    main()

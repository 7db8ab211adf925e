"""All destinations of one configuration directory, and the service around them.

`CanalServer` is used in process as well; the doors are thin over it. Every `canal.auto.scan.interval` seconds it looks
at the directory again: new destinations start, changed ones start again, removed ones end. A destination that cannot be
set up fails alone. What canal.properties says of the service itself is read once.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from cdc_core.config import ServiceConfig
from cdc_core.contract.status import Status
from cdc_core.destination.capture import PAUSES
from cdc_core.destination.catalogue import Catalogue
from cdc_core.destination.positions import Positions, positions
from cdc_core.destination.rewind import Reset, RewindTarget, plan
from cdc_core.destination.runner import Destination
from cdc_core.errors import SluiceError, UnknownDestination
from cdc_core.gtid import parse_gtid_field
from cdc_core.meta.file import FileNodes
from cdc_core.meta.nodes import Nodes
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.server.cluster import Cluster
from cdc_core.server.directory import Directory
from cdc_core.source.connection import connected
from cdc_core.source.start.continuity import missing
from cdc_core.stream.filter import make_filter

_SHOWN = 100  # characters of a name that a caller chose
_SIDE_BY_SIDE = 64  # destinations that end at the same time: each waits for its threads, most of the time

log = structlog.get_logger(__name__)


class CanalServer:
    """`pauses`: the shortest and the longest between attempts to read a source, in seconds. The mutable state is the
    destinations; `_lock` keeps scans and calls by hand apart."""

    def __init__(
        self, config: ServiceConfig, conf_dir: Path | None = None, pauses: tuple[float, float] = PAUSES
    ) -> None:
        self.config = config
        self.directory = Directory(config, conf_dir or config.conf_dir)
        self._pauses = pauses
        self._destinations: dict[str, Destination] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._zookeeper: ZookeeperNodes | None = None
        self._cluster: Cluster | None = None
        self._loaded = self._started = False

    def __repr__(self) -> str:
        return f"<CanalServer {', '.join(self.destinations()) or 'no destinations'}>"

    # -- life

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
            for destination in self._destinations.values():
                destination.start()
        if self.config.auto_scan:
            threading.Thread(target=self._keep_scanning, name="scan", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()
        if self._cluster is not None:
            self._cluster.withdraw()
        with self._lock, ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            list(pool.map(lambda destination: destination.end("the service stops"), self._destinations.values()))
        if self._zookeeper is not None:
            self._zookeeper.close()

    # -- the destinations

    def destinations(self) -> list[str]:
        return sorted(self._destinations)

    def has(self, name: str) -> bool:
        return name in self._destinations

    def destination(self, name: str) -> Destination:
        """Raises UnknownDestination."""
        found = self._destinations.get(name)
        if found is None:
            shown = name[:_SHOWN]
            raise UnknownDestination(
                f"no destination {shown!r}",
                place=str(self.directory.path),
                hint=f"Known: {', '.join(self.destinations()) or 'none'}. Add {shown}/instance.properties to have it.",
            )
        return found

    def start_destination(self, name: str) -> Status:
        """Starts a destination that is lazy or was stopped by an operator, unless it runs. Returns its status then."""
        with self._lock:
            self.destination(name).start_by_hand(self.directory.read(name))
        return self.destination(name).status()

    def stop_destination(self, name: str) -> Status:
        """Until it is started or its configuration changes. Outstanding claims are lost: their rows are read again from
        the cursor."""
        with self._lock:
            self.destination(name).stop_by_hand()
        return self.destination(name).status()

    def reload_destination(self, name: str) -> Status:
        """Ends it and sets it up anew with its configuration as it is now."""
        with self._lock:
            self.destination(name).reload_by_hand(self.directory.read(name))
        return self.destination(name).status()

    def positions(self, name: str) -> Positions:
        """How far each client is behind the source, which is asked."""
        destination = self.destination(name)
        capture = destination.capture
        on_disk, waiting = (capture.kept, capture.waiting()) if capture else (None, None)
        kept = on_disk.start if on_disk else None
        return positions(destination.source_settings(), destination.cursors, time.time, kept, waiting)

    def missing(self, name: str, gtids: str) -> str:
        """Those of the GTIDs that the source, which is asked, has not executed; "" for none."""
        with connected(self.destination(name).source_settings()) as conn:
            return missing(conn, parse_gtid_field(gtids))

    def reset_destination(self, name: str, target: RewindTarget, *, dry_run: bool) -> Reset:
        """What setting the cursors would mean; without `dry_run` it is done."""
        destination = self.destination(name)
        settings, config = destination.source_settings(), destination.config
        captured = Catalogue(config, settings, make_filter(config.filter_regex, config.filter_black_regex))
        on_disk = destination.capture.kept if destination.capture else None
        kept = on_disk.places() if on_disk else None
        try:
            planned = plan(settings, destination.cursors, target, captured.tables, kept=kept)
        except SluiceError as error:
            raise error.named(name) from None
        if not dry_run:
            destination.rewind(planned)
        return Reset(name, planned, done=not dry_run)

    # -- the directory

    def scan(self) -> None:
        """Brings the destinations in line with the directory."""
        with self._lock:
            names = self.directory.names()
            for name in [name for name in self._destinations if name not in names]:
                self._destinations.pop(name).end("removed")
            for name in names:
                self._look_at(name)
            self.directory.tell_leftovers()

    def _keep_scanning(self) -> None:
        while not self._stop.wait(self.config.auto_scan_interval):
            try:
                self.scan()
            except Exception:  # whatever it is, the next look may go well, and what runs is not touched
                log.exception("the configuration directory cannot be read", place=str(self.directory.path))

    def _look_at(self, name: str) -> None:
        """Reads a destination's files when they were written, or when it is refused: the reason may be gone."""
        known = self._destinations.get(name)
        if known is None:
            self._add(name)
        elif known.refused or self.directory.written(name):
            known.scan(self.directory.read(name))

    def _add(self, name: str) -> None:
        found, nodes = self.directory.read(name), self._nodes(name)
        added = Destination(name, found, nodes, self._cluster, pauses=self._pauses)
        self._destinations[name] = added
        if self._started:
            added.start()

    def _nodes(self, destination: str) -> Nodes:
        """Where its cursors are kept."""
        return self._zookeeper or FileNodes(self.config.data_dir / destination / "cursors.json")

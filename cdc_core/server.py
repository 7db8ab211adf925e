"""All destinations of one configuration directory, and the service around them.

`CanalServer` is used in process as well; the doors are thin over it. Every `canal.auto.scan.interval` seconds it looks
at the directory again: new destinations start, changed ones start anew, removed ones stop; one stopped by hand rests
until it is started or its configuration changes. A destination that cannot be set up fails alone. What
canal.properties says of the service itself is read once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from cdc_core.addresses import address_of, source_settings
from cdc_core.config import InstanceConfig, ServiceConfig
from cdc_core.configured import Configured
from cdc_core.errors import ConfigError, SessionError, SluiceError, UnknownDestination
from cdc_core.ha.cluster import Cluster
from cdc_core.ha.led import Led
from cdc_core.ha.standby import Standby
from cdc_core.instance import PAUSES, Instance
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.file import FileNodes
from cdc_core.meta.nodes import Nodes
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.positions import positions
from cdc_core.refused import Refused
from cdc_core.resting import BY_HAND, Resting
from cdc_core.rewind import Plan, Target, carry_out, plan
from cdc_core.sink.filter import make_filter
from cdc_core.source.settings import SourceSettings
from cdc_core.switched import Switched

_SIDE_BY_SIDE = 64  # destinations that stop at the same time: each waits for its threads, most of the time

log = structlog.get_logger(__name__)

Runner = Switched | Led | Refused | Resting


class CanalServer:
    """`pauses`: the shortest and the longest between attempts to read a source, in seconds.

    The mutable state is `_running`: for each destination what it was made from, and what runs."""

    def __init__(
        self, config: ServiceConfig, conf_dir: Path | None = None, pauses: tuple[float, float] = PAUSES
    ) -> None:
        self.config = config
        self._pauses = pauses
        self.configured = Configured(config, conf_dir or config.conf_dir)
        self._running: dict[str, tuple[InstanceConfig | str, Runner]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._scanner: threading.Thread | None = None
        self._zookeeper: ZookeeperNodes | None = None
        self._cluster: Cluster | None = None
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
        with self._lock, ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            list(pool.map(lambda running: running[1].stop(), self._running.values()))
        if self._zookeeper is not None:
            self._zookeeper.close()

    def destinations(self) -> list[str]:
        return sorted(self._running)

    def instance(self, name: str) -> Instance | Standby | Refused | Resting:
        return _current(self._found(name)[1])

    def _found(self, name: str) -> tuple[InstanceConfig | str, Runner]:
        found = self._running.get(name)
        if found is None:
            raise UnknownDestination(
                f"no destination {name!r}",
                place=str(self.configured.path),
                hint=f"Known: {', '.join(self.destinations()) or 'none'}. Add {name}/instance.properties to have it.",
            )
        return found

    # -- by hand

    def stop_destination(self, name: str) -> dict[str, Any]:
        """Its status after it. Outstanding claims are lost: their rows are read again from the cursor."""
        with self._lock:
            wanted, instance = self._found(name)
            if not isinstance(instance, Resting) or instance.lazy:
                self._end(name, BY_HAND)
                self._running[name] = (wanted, Resting(instance.config, name))
        return self.instance(name).status()

    def start_destination(self, name: str) -> dict[str, Any]:
        """Starts one that rests, a lazy one too; one that runs goes on as it is."""
        with self._lock:
            if isinstance(self._found(name)[1], Resting):
                del self._running[name]
                self._look_at(name, eager=True)
        return self.instance(name).status()

    def reload_destination(self, name: str) -> dict[str, Any]:
        """Ends it and begins anew with its configuration as it is now."""
        with self._lock:
            self._found(name)
            self._end(name, "reloaded by hand")
            del self._running[name]
            self._look_at(name)
        return self.instance(name).status()

    def positions(self, name: str) -> dict[str, Any]:
        """Where each client's cursor is, and how far behind the source's end."""
        return positions(self._settings(name), Cursors(self._nodes(name), name), time.time)

    def reset_destination(self, name: str, target: Target, *, dry_run: bool) -> dict[str, Any]:
        """What setting the cursors would mean; without `dry_run` it is done, with the destination stopped meanwhile."""
        cursors = Cursors(self._nodes(name), name)
        planned = plan(self._settings(name), cursors, target)
        told = {
            "destination": name,
            "to": planned.position.postion.to_dict(),
            "done": not dry_run,
            "clients": [move.to_dict() for move in planned.moves],
        }
        if not dry_run:
            self._set_back(name, planned)
        return told

    def _set_back(self, name: str, planned: Plan) -> None:
        def work(nodes: Nodes) -> None:
            epochs = carry_out(Cursors(nodes, name), planned)
            log.warning("cursors set by hand", destination=name, position=str(planned.position.postion), epochs=epochs)

        with self._lock:
            wanted, instance = self._found(name)
            if isinstance(instance, Led):
                instance.between(work)
                return
            if self._cluster is not None:
                raise SessionError(
                    f"destination {name} rests here, and another server may run it",
                    place=name,
                    hint=f"Start it here, or ask the server that runs it: sluice destination start {name}",
                )
            self._end(name, "its cursors are set by hand")
            try:
                work(self._nodes(name))
            finally:
                if isinstance(instance, Resting) and not instance.lazy:
                    self._running[name] = (wanted, instance)
                else:
                    del self._running[name]
                    self._look_at(name)

    def _settings(self, name: str) -> SourceSettings:
        """Of the server that is read, or would be."""
        config, instance = self._config_of(name), self.instance(name)
        if isinstance(instance, Instance):
            return instance.settings
        cursors = Cursors(self._nodes(name), name)
        return source_settings(config, address_of(config, [cursors.read(client) for client in cursors.clients()]))

    def _config_of(self, name: str) -> InstanceConfig:
        wanted, instance = self._found(name)
        if isinstance(wanted, InstanceConfig):
            return wanted
        raise instance.error if isinstance(instance, Refused) else ConfigError(wanted, hint="Correct it, then reload.")

    # -- the directory

    def scan(self) -> None:
        """Brings what runs in line with the directory."""
        with self._lock:
            names = self.configured.names()
            for name in [name for name in self._running if name not in names]:
                self._end(name, "removed")
                del self._running[name]
            for name in names:
                self._look_again(name)

    def _keep_scanning(self) -> None:
        while not self._stop.wait(self.config.auto_scan_interval):
            try:
                self.scan()
            except Exception:  # whatever it is, the next look may go well, and what runs is not touched
                log.exception("the directory cannot be looked at", place=str(self.configured.path))

    def _look_again(self, name: str) -> None:
        """Reads a destination's configuration when its files were written, or when it was refused."""
        known = name in self._running and not isinstance(self._running[name][1], Refused)
        if not known or self.configured.written(name):
            self._look_at(name)

    def _look_at(self, name: str, *, eager: bool = False) -> None:
        wanted: InstanceConfig | str
        try:
            config = self.configured.read(name)
            wanted, make = config, lambda: self._made(config, eager)
        except ConfigError as error:
            refused = Refused(name, error)
            wanted, make = str(error), lambda: refused
        if name in self._running and self._running[name][0] == wanted:
            return
        if self._changed(name, wanted):
            return
        if name in self._running:
            self._end(name, "changed")
        self._begin(name, wanted, make)

    def _made(self, config: InstanceConfig, eager: bool) -> Runner:
        instance = self._make(config)
        if eager or not config.lazy:
            return instance
        return Resting(config, config.destination, lambda: self._wake(config, instance))

    def _make(self, config: InstanceConfig) -> Switched | Led:
        """With ZooKeeper a destination runs where it is won. Raises ConfigError."""
        if self._cluster is None:
            return self._over(config, self._nodes(config.destination))
        make_filter(config.filter_regex, config.filter_black_regex)  # a bad one is told now, not in our turn
        self._cluster.want(config.destination)
        return self._cluster.led(config, partial(self._over, config))

    def _over(self, config: InstanceConfig, nodes: Nodes) -> Switched:
        return Switched(config, nodes, pauses=self._pauses)

    def _changed(self, name: str, wanted: InstanceConfig | str) -> bool:
        """A destination that servers compete for goes on where it is, unless it is to be refused or lazy now."""
        present = self._running[name][1] if name in self._running else None
        if not isinstance(present, Led) or isinstance(wanted, str) or wanted.lazy or not _sound(wanted):
            return False
        log.info("destination changes", destination=name)
        present.change(wanted, partial(self._over, wanted))
        self._running[name] = (wanted, present)
        return True

    def _wake(self, config: InstanceConfig, instance: Switched | Led) -> Instance | Standby | Refused | Resting:
        """Puts a lazy destination's instance in its place, unless something else stands there by now."""
        with self._lock:
            wanted, present = self._found(config.destination)
            if wanted is config and isinstance(present, Resting) and present.lazy:
                self._running[config.destination] = (wanted, instance)
                if self._started:
                    instance.start()
        return self.instance(config.destination)

    def _begin(self, name: str, wanted: InstanceConfig | str, make: Callable[[], Runner]) -> None:
        try:
            instance = make()
        except SluiceError as error:  # e.g. a filter that does not compile
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

    def _nodes(self, destination: str) -> Nodes:
        return self._zookeeper or FileNodes(self.config.data_dir / destination / "cursors.json")


def _sound(config: InstanceConfig) -> bool:
    try:
        make_filter(config.filter_regex, config.filter_black_regex)
    except SluiceError:
        return False
    return True


def _current(runner: Runner) -> Instance | Standby | Refused | Resting:
    found = runner.current if isinstance(runner, Led) else runner
    return found.current if isinstance(found, Switched) else found

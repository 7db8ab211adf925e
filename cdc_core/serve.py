"""The service as a process: the doors around all destinations, the signals that end it, and its exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from cdc_core import config as configuration
from cdc_core import log as logging
from cdc_core import memory
from cdc_core.config import Report, ServiceConfig
from cdc_core.contract.host import is_loopback
from cdc_core.errors import ConfigError, SluiceError
from cdc_core.server.server import CanalServer
from cdc_core.store.disk.volumes import lock_of

if TYPE_CHECKING:
    from cdc_core.canal.queues.feeders import Feeders
    from cdc_core.doors.certificate import Certificate
    from cdc_core.doors.traffic import Traffic

log = structlog.get_logger(__name__)

_DESCRIPTORS = 65536


def token_of(config: ServiceConfig) -> str | None:
    """The bearer token, from the key or from the file that it names."""
    if config.token_file is None:
        return config.token.get_secret_value() or None
    try:
        token = config.token_file.read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(
            f"cannot read the token: {error.strerror}",
            place=f"sluice.token.file={config.token_file}",
            hint="Make the file readable, or correct the path.",
        ) from error
    if not token:
        raise ConfigError("the token is empty", place=str(config.token_file), hint="Write the token into the file.")
    return token


def check_open(config: ServiceConfig, token: str | None) -> None:
    """Raises ConfigError where other hosts could read, ack, reset and stop everything without a token."""
    if is_loopback(config.host):
        return
    if token and config.tls_certificate is None:
        log.warning(
            "the token and the rows cross the network without encryption",
            place=f"canal.ip={config.host}",
            hint="Set sluice.tls.certificate and sluice.tls.key.",
        )
    if token or config.http_anyone:
        return
    raise ConfigError(
        "without a token, every host that reaches this address can read, ack, reset and stop everything",
        place=f"canal.ip={config.host}",
        hint="Set sluice.token or sluice.token.file; where the network keeps others away, sluice.http.anyone = true.",
    )


def descriptors() -> int:
    """Raises the limit of open files as far as the host allows, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


@contextmanager
def only_user(config: ServiceConfig) -> Iterator[None]:
    """Holds the lock of the data directory, where cursors are files: two services would write the same cursors. Raises
    ConfigError while another one has it."""
    if config.zk_servers:
        yield
        return
    path = config.data_dir / "service.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = lock_of(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write in the data directory: {error.strerror}",
            place=str(path),
            hint="Make canal.file.data.dir a directory that this process may write in.",
        ) from error
    if lock is None:
        raise ConfigError(
            "another service uses the data directory",
            place=str(config.data_dir),
            hint="Stop it first, or set canal.file.data.dir. Services that stand by for each other need ZooKeeper.",
        )
    try:
        yield
    finally:
        os.close(lock)


def serve(conf_dir: Path, stop: threading.Event | None = None) -> int:
    """Runs the service until SIGTERM or SIGINT. Returns the exit code: 0, or 1 with the reason on stderr."""
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
    memory.give_back()
    config, report = configuration.load_service(conf_dir)
    token = token_of(config)
    check_open(config, token)
    with only_user(config):
        _serve(config, report, conf_dir, token, stop)


def _serve(config: ServiceConfig, report: Report, conf_dir: Path, token: str | None, stop: threading.Event) -> None:
    from cdc_core.canal.admin import AdminDoor
    from cdc_core.canal.tcp import TcpDoor
    from cdc_core.canal.tcp.door import CONNECTIONS
    from cdc_core.doors.certificate import certificates
    from cdc_core.doors.flight import FlightDoor
    from cdc_core.doors.http import HttpDoor
    from cdc_core.doors.traffic import Traffic

    server = CanalServer(config, conf_dir)
    traffic, most = Traffic(server.has), descriptors()
    server.directory.warn(report)
    own, of_tcp = certificates(config)
    some = min(config.http_connections, most // 8)
    http = HttpDoor(server, config.host, config.http_port, token, traffic, some, own)
    some = min(config.flight_connections, most // 8)
    flight = FlightDoor(server, config.host, config.flight_port, token, traffic, certificate=own, connections=some)
    some = min(CONNECTIONS, most // 4)
    tcp = TcpDoor(server, config.host, config.port, traffic, certificate=of_tcp, connections=some)
    doors: list[HttpDoor | FlightDoor | TcpDoor | AdminDoor | Certificate] = [http, flight]
    doors += [one for one in (own, of_tcp) if one is not None]
    if config.serves_tcp:
        doors.append(tcp)
    if config.serves_admin:
        passwd = config.admin_passwd.get_secret_value()
        doors.append(AdminDoor(server, config.host, config.admin_port, config.admin_user, passwd))
    queues = _queues(server, config, traffic)
    try:
        server.load()  # before the doors open; sources are read after it, when every door could open
        for door in doors:
            door.start()
        server.start()
        if queues is not None:
            queues.start()
        served = {"http": http.url, "flight": flight.port, "tcp": tcp.url if config.serves_tcp else None}
        log.info("serving", **served, destinations=server.destinations())
        threading.Thread(target=_warm_up, name="warm up", daemon=True).start()  # compiling must not delay a stop
        stop.wait()
    finally:
        if queues is not None:
            queues.stop()
        for door in doors:
            door.stop()
        server.stop()


def _queues(server: CanalServer, config: ServiceConfig, traffic: Traffic) -> Feeders | None:
    if config.server_mode == "tcp":
        return None
    from cdc_core.canal.queues.feeders import Feeders

    return Feeders(server, traffic)


def _warm_up() -> None:
    """Compiles the kernels for rows before the first claim."""
    try:
        importlib.import_module("cdc_core.rows.net")
    finally:
        memory.settle()
    log.info("warm")


def main() -> None:
    parser = argparse.ArgumentParser(prog="cdc_core.serve", description="Serves the destinations of a conf directory.")
    parser.add_argument("--conf", type=Path, default=Path("conf"), help="directory with canal.properties")
    sys.exit(serve(parser.parse_args().conf))


if __name__ == "__main__":
    main()

"""Looks at what a service needs before its first start: configuration, cursors' place, sources. Changes nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cdc_core import config as configuration
from cdc_core.config import Report, ServiceConfig
from cdc_core.errors import CursorError, SluiceError
from cdc_core.meta.zookeeper import ZookeeperNodes
from cdc_core.serve import check_open, token_of
from cdc_core.source.checks import check_server
from cdc_core.source.connection import connected
from cdc_core.source.settings import source_settings
from cdc_core.stream.filter import make_filter

_CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Preflight:
    """`what` was looked at, `where`, what was `found`, and the `remedy`, "" if nothing is wrong. A `warning` keeps
    nothing from starting."""

    what: str
    where: str
    found: str
    remedy: str = ""
    warning: bool = False


def checked(conf_dir: Path) -> Iterator[Preflight]:
    """Yields what is right and what is wrong. After a service's configuration that cannot be read nothing follows."""
    try:
        service, report = configuration.load_service(conf_dir)
        check_open(service, token_of(service))
    except SluiceError as error:
        yield _wrong("the configuration", str(conf_dir), error)
        return
    yield _read("the configuration", str(conf_dir / "canal.properties"), report)
    yield _cursors(service)
    names = configuration.destinations(service)
    if not names:
        hint = "Run `sluice init`, or add {destination}/instance.properties."
        yield Preflight("the destinations", str(service.conf_dir), "none is configured", hint)
    for name in names:
        yield from _destination(conf_dir, name)


def _destination(conf_dir: Path, name: str) -> Iterator[Preflight]:
    what = f"the source of {name}"
    try:
        instance, report = configuration.load_instance(conf_dir, name)
        yield _read(f"the configuration of {name}", f"{name}/instance.properties", report)
        settings = source_settings(instance)
        with connected(settings) as conn:
            server = check_server(conn, settings, make_filter(instance.filter_regex, instance.filter_black_regex))
    except SluiceError as error:
        yield _wrong(what, name, error)
        return
    yield Preflight(what, server.address, f"{server.flavor} {server.version}: its settings and grants suffice")
    for warning in server.warnings:
        yield Preflight(what, server.address, warning, warning=True)


def _cursors(service: ServiceConfig) -> Preflight:
    """Checks ZooKeeper; without it the directory that has the cursors."""
    if not service.zk_servers:
        return _data_directory(service.data_dir)
    where = service.zk_servers
    try:
        nodes = ZookeeperNodes(where, service.zk_auth.get_secret_value(), connect_seconds=_CONNECT_SECONDS)
        try:
            nodes.read("/otter")
        finally:
            nodes.close()
    except CursorError as error:
        return _wrong("ZooKeeper", where, error)
    return Preflight("ZooKeeper", where, "it answers")


def _data_directory(path: Path) -> Preflight:
    there = next(one for one in (path, *path.parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return Preflight("the cursors", str(path), "its directory can be written")
    except OSError as error:
        hint = "Make canal.file.data.dir a directory that the service may write in."
        return Preflight("the cursors", str(path), f"cannot be written: {error.strerror}", hint)


def _wrong(what: str, where: str, error: SluiceError) -> Preflight:
    return Preflight(what, error.place or where, error.message, error.hint)


def _read(what: str, where: str, report: Report) -> Preflight:
    """A configuration that can be read. Keys without effect are a warning."""
    names = [*report.unknown, *report.unsupported]
    found = f"it can be read; without effect: {', '.join(names)}" if names else "it can be read"
    return Preflight(what, where, found, warning=bool(names))

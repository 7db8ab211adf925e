"""Probes of what grows on a machine: processes, folders, SQLite's files, ZooKeeper, the pages of metrics, MySQL.

Each is asked again and again, and changes nothing. What goes away between two looks is not counted.
"""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

import httpx
import psutil
import pymysql
from prometheus_client.parser import text_string_to_metric_families
from pymysql.connections import Connection

from cdc_core.errors import SluiceError
from tests.support.samples import Probe, away

MEGA = 1e6  # bytes


class Running(Protocol):
    """What knows its process, which may be another one later."""

    @property
    def pid(self) -> int | None: ...


def process(part: str, of: Running) -> Probe:
    """Memory, files and threads of a process; memory and number of all that it has started."""

    def look() -> dict[str, float]:
        if of.pid is None:
            return {}
        own = psutil.Process(of.pid)
        with own.oneshot():
            found: dict[str, float] = {
                f"{part}: memory": own.memory_info().rss / MEGA,
                f"{part}: open files": own.num_fds(),
                f"{part}: threads": own.num_threads(),
            }
        memory = [size for child in own.children(recursive=True) if (size := _memory(child)) is not None]
        return found | {f"{part}: children": len(memory), f"{part}: children's memory": sum(memory) / MEGA}

    return away(psutil.Error)(look)


def _memory(one: psutil.Process) -> float | None:
    """None for a process that has ended."""
    with suppress(psutil.Error):
        if one.status() != psutil.STATUS_ZOMBIE:
            return float(one.memory_info().rss)
    return None


def folder(part: str, *paths: Path, but: Collection[str] = (), only: str = "*") -> Probe:
    """Files and bytes below folders, and single files, whose names fit `only`. Names in `but` are left out, with all
    that is in them."""

    def look() -> dict[str, float]:
        sizes = [size for path in paths for size in _sizes(path, but, only)]
        return {f"{part}: files": len(sizes), f"{part}: bytes": sum(sizes) / MEGA}

    return look


def _sizes(path: Path, but: Collection[str], only: str) -> Iterator[int]:
    try:
        if not path.is_dir():
            if fnmatchcase(path.name, only):
                yield path.stat().st_size
            return
        with os.scandir(path) as entries:
            inside = [Path(entry.path) for entry in entries if entry.name not in but and not entry.is_symlink()]
    except OSError:
        return
    for one in inside:
        yield from _sizes(one, but, only)


def databases(part: str, *folders: Path) -> Probe:
    """The rows of each table of SQLite's files, and their bytes without pages that are free to be used again."""

    def look() -> dict[str, float]:
        found, size = dict[str, float](), 0
        for file in sorted(file for path in folders for file in path.rglob("*.db")):
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=1.0)) as connection:
                size += _used(connection)
                names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
                for (name,) in names.fetchall():
                    (rows,) = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()
                    found[f"{part}: {name}"] = found.get(f"{part}: {name}", 0) + rows
        return found | {f"{part}: bytes": size / MEGA}

    return away(sqlite3.Error)(look)


def _used(connection: sqlite3.Connection) -> int:
    asked = ("page_count", "freelist_count", "page_size")
    pages, free, size = (int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in asked)
    return (pages - free) * size


def query(file: Path, questions: Mapping[str, str], **others: Path) -> Probe:
    """One number by name for each question to a file of SQLite's, and to others by the names of their schemas."""

    def look() -> dict[str, float]:
        if not all(one.exists() for one in (file, *others.values())):
            return {}
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=1.0)) as connection:
            for name, other in others.items():
                connection.execute(f"ATTACH ? AS {name}", (f"{other.as_uri()}?mode=ro",))
            answers = {name: connection.execute(question).fetchone()[0] for name, question in questions.items()}
        return {name: float(answer or 0) for name, answer in answers.items()}

    return away(sqlite3.Error)(look)


def zookeeper(port: int) -> Probe:
    """Its nodes and connections, as its command `srvr` says."""

    def look() -> dict[str, float]:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as server:
            server.sendall(b"srvr")
            return parsed_srvr(b"".join(iter(lambda: server.recv(4096), b"")).decode())

    return away(OSError, ValueError)(look)


def parsed_srvr(text: str) -> dict[str, float]:
    said = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    wanted = {"nodes": "Node count", "connections": "Connections"}
    return {f"zookeeper: {name}": float(said[line]) for name, line in wanted.items() if line in said}


def metrics(part: str, url: str, names: Mapping[str, str]) -> Probe:
    """Values of a page for Prometheus, the sums over all labels. `names`: what they are called here, by metric."""

    def look() -> dict[str, float]:
        text = httpx.get(f"{url}/metrics", timeout=3, trust_env=False).raise_for_status().text
        return parsed_metrics(part, text, names)

    return away(httpx.HTTPError, ValueError)(look)


def parsed_metrics(part: str, text: str, names: Mapping[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in names:
                name = f"{part}: {names[sample.name]}"
                found[name] = found.get(name, 0.0) + sample.value
    return found


def connections(connect: Callable[[], Connection[Any]]) -> Probe:
    """The connections of a MySQL, without the one that asks."""

    def look() -> dict[str, float]:
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
            row = cursor.fetchone()
        return {"mysql: connections": float(row[1]) - 1} if row else {}

    return away(pymysql.err.MySQLError, SluiceError, OSError)(look)

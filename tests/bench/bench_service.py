"""The service as a process in front of a real MySQL: at rest, its memory, its start; and the way from socket to store.

`service_idle`: CPU of a service whose server is quiet.
`service_rss_over_ring`: the most that the process holds beyond the ring, through one transaction of 2,000,000 rows.
`service_large_row`: the same with rows of 60 MB.
`service_start`: from the process's start to its first decoded event, with kernels and bytecode compiled before.
`rows_read`: until a client has the first claim's rows.
`socket_to_store`, `small_transactions`: reading journals into a ring that holds them all, in this process.

    python -m tests.bench.bench_service [--scale 0.1] [--only service_idle]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from cdc_core.config import InstanceConfig
from cdc_core.destination.capture import Capture
from cdc_core.meta.nodes import MemoryNodes
from orchestration.stack.mysql.install import MARIADB
from orchestration.stack.mysql.server import MySqlServer
from tests.bench.drain import connect, drain
from tests.support.servers import free_port

RING = 16 << 20
PEER = "mariadb-binlog"
COLUMNS = """(id BIGINT PRIMARY KEY, n INT, name VARCHAR(64), price DECIMAL(12,2), seen DATETIME(3), note VARCHAR(200))
             CHARACTER SET utf8mb4"""
VALUES = "n, CONCAT('name-', n), n / 100, '2024-05-06 07:08:09.123'"


class Service:
    """One `sluice server`; `destination` is its only one, at `start` until it has a cursor."""

    def __init__(self, place: Path, mysql: MySqlServer, start: tuple[str, int] | None, **settings: object) -> None:
        self.http, self.flight, self.tcp = free_port(), free_port(), free_port()
        self.conf = place
        self._write(mysql, start, settings)
        self.process: psutil.Popen | None = None

    def _write(self, mysql: MySqlServer, start: tuple[str, int] | None, settings: dict[str, object]) -> None:
        (self.conf / "bench").mkdir(parents=True, exist_ok=True)
        service: dict[str, object] = {
            "canal.metrics.pull.port": self.http,
            "sluice.flight.port": self.flight,
            "canal.port": self.tcp,
        }
        instance: dict[str, object] = {
            "canal.instance.master.address": f"{mysql.host}:{mysql.port}",
            "canal.instance.dbUsername": mysql.user,
            "canal.instance.dbPassword": mysql.password,
            "canal.instance.filter.regex": r"bench\\..*",
            "canal.instance.memory.buffer.size": RING >> 10,
            "sluice.store.bytes": 0,
        } | {key.replace("__", "."): value for key, value in settings.items()}
        if mode := instance.pop("canal.serverMode", None):
            service["canal.serverMode"] = mode
        if start is not None:
            instance |= {"canal.instance.master.journal.name": start[0], "canal.instance.master.position": start[1]}
        for path, keys in (("canal.properties", service), ("bench/instance.properties", instance)):
            (self.conf / path).write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))

    @property
    def doors(self) -> tuple[int, int]:
        """The ports of HTTP and of Flight."""
        return self.http, self.flight

    def start(self) -> psutil.Popen:
        command = [sys.executable, "-m", "orchestration.cli", "server", "--conf", str(self.conf)]
        environment = {**os.environ}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled once
        with (self.conf / "log").open("ab") as log:
            self.process = psutil.Popen(command, stderr=log, env=environment)
        return self.process

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)

    def status(self) -> dict[str, Any]:
        """Empty while the service does not answer yet."""
        try:
            return dict(httpx.get(f"http://127.0.0.1:{self.http}/v1/destinations/bench", trust_env=False).json())
        except httpx.TransportError:
            return {}

    def until(self, condition: Callable[[dict[str, Any]], Any], seconds: float = 120, pause: float = 0.05) -> None:
        deadline = time.monotonic() + seconds
        while not (status := self.status()) or not condition(status):
            assert time.monotonic() < deadline, status
            time.sleep(pause)

    def memory(self) -> dict[str, float]:
        """MB: now, the most so far, and what of it is no file's."""
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        kept = {line.split(":")[0]: int(line.split()[1]) / 1000 * 1.024 for line in lines if line.endswith(" kB")}
        return {"now": kept["VmRSS"], "peak": kept["VmHWM"], "anonymous": kept["RssAnon"]}

    def cpu(self) -> float:
        assert self.process is not None
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def until_warm(self) -> None:
        """Until the kernels are loaded, which it does while it serves."""
        deadline = time.monotonic() + 120
        while b'"event": "warm"' not in (self.conf / "log").read_bytes():
            assert time.monotonic() < deadline, "not warm"
            time.sleep(0.05)

    def begin(self) -> None:
        """Starts the destination, where it is lazy."""
        httpx.post(f"http://127.0.0.1:{self.http}/v1/destinations/bench/start", trust_env=False).raise_for_status()


@contextmanager
def serving(mysql: MySqlServer, start: tuple[str, int] | None = None, **settings: object) -> Iterator[Service]:
    """A service that is connected, or lazy."""
    with tempfile.TemporaryDirectory(prefix="bench-service-") as place:
        service = Service(Path(place), mysql, start, **settings)
        service.start()
        try:
            service.until(lambda status: status.get("state") in ("running", "lazy"))
            yield service
        finally:
            service.stop()


def fill(mysql: MySqlServer, statements: list[str]) -> tuple[str, int]:
    """A new journal that begins with a fresh `bench`; where it begins."""
    helpers = ["SET sql_log_bin = 0", "DROP DATABASE IF EXISTS seed", "CREATE DATABASE seed"]
    helpers += [
        "CREATE TABLE seed.d (d INT PRIMARY KEY)",
        f"INSERT INTO seed.d VALUES {','.join(f'({n})' for n in range(1000))}",
    ]
    fresh = ["SET sql_log_bin = 1", "FLUSH BINARY LOGS", "DROP DATABASE IF EXISTS bench", "CREATE DATABASE bench"]
    with mysql.root() as connection, connection.cursor() as cursor:
        for statement in helpers + fresh[:2]:
            cursor.execute(statement)
        start = mysql.position()
        for statement in fresh[2:] + statements:
            cursor.execute(statement)
    return start


def one_transaction(rows: int) -> list[str]:
    """All rows by one statement, about 100 bytes each."""
    numbers = (
        f"SELECT a.d + 1000 * b.d + 1000000 * c.d AS n FROM seed.d c, seed.d b, seed.d a WHERE c.d < 20 LIMIT {rows}"
    )
    select = f"SELECT n, {VALUES}, REPEAT('x', 40) FROM ({numbers}) numbers"
    return [f"CREATE TABLE bench.t {COLUMNS}", f"INSERT INTO bench.t {select}"]


def idle(mysql: MySqlServer, scale: float) -> None:
    with serving(mysql) as service:
        time.sleep(3)
        before, began, window = service.cpu(), time.monotonic(), max(5.0, 20 * scale)
        time.sleep(window)
        share = 100 * (service.cpu() - before) / (time.monotonic() - began)
    report("service_idle", share, "% of a core", {"seconds": window, "limit": 3})


def memory(mysql: MySqlServer, scale: float) -> None:
    rows = int(2_000_000 * scale)
    start = fill(mysql, one_transaction(rows))
    ring = RING / 1e6
    with serving(mysql, start) as service:
        service.until(lambda status: status["backlog_rows"] > 0 and status["store"]["bytes"] > 0.9 * RING)
        full = service.memory()
        marks: list[tuple[int, float, float]] = []
        note = lambda seen: marks.append((seen, time.monotonic(), service.memory()["now"] - ring))  # noqa: E731
        assert drain(connect(service.http, service.flight), rows, splits=4, acked=note) == rows
        end, seconds = service.memory(), service.cpu()
    config = _tenths(marks) | {
        "rows_in_one_transaction": rows, "ring_mb": round(ring, 1), "limit": 300, "batch_rows": 100_000,
        "side_by_side": 4, "with_a_full_ring": round(full["now"] - ring), "at_the_end": round(end["now"] - ring),
        "of_it_anonymous": round(end["anonymous"] - ring), "cpu_seconds": round(seconds, 1),
    }  # fmt: skip
    report("service_rss_over_ring", end["peak"] - ring, "MB", config)


def _tenths(marks: list[tuple[int, float, float]]) -> dict[str, object]:
    """Rows a second and MB over the ring, in the first and in the last tenth of (rows, time, MB). The very last batch
    is not full, and waited for more."""
    marks, size = marks[:-1], max(2, len(marks) // 10)
    parts = {"first": marks[:size], "last": marks[-size:]}
    told: dict[str, object] = {}
    for name, part in parts.items():
        rate = (part[-1][0] - part[0][0]) / max(1e-6, part[-1][1] - part[0][1])
        told |= {f"rows_per_second_{name}": round(rate), f"mb_{name}": round(part[-1][2])}
    return told


def large_row(mysql: MySqlServer, scale: float) -> None:
    """Rows of 60 MB each, in a transaction with small ones."""
    size, ring = int(60_000_000 * scale), RING / 1e6
    blob = f"INSERT INTO bench.b VALUES ({{n}}, REPEAT('x', {size}))"
    steps = ["SET GLOBAL max_allowed_packet = 1073741824", "CREATE TABLE bench.b (id BIGINT PRIMARY KEY, b LONGBLOB)"]
    fill(mysql, steps)
    with mysql.root() as connection, connection.cursor() as cursor:
        begin = mysql.position()
        cursor.execute("BEGIN")
        for number in range(4):
            cursor.execute(blob.format(n=2 * number))
            cursor.execute(f"INSERT INTO bench.b VALUES ({2 * number + 1}, 'small')")
        cursor.execute("COMMIT")
    with serving(mysql, begin) as service:
        service.until(lambda status: status["backlog_rows"] > 0)
        assert drain(connect(service.http, service.flight), 8, batch=1, splits=1) == 8
        peak = service.memory()["peak"]
    report("service_large_row", peak - ring, "MB over the ring", {"row_mb": round(size / 1e6), "rows": 4})


def start(mysql: MySqlServer, scale: float) -> None:
    begin = fill(mysql, one_transaction(1000))
    took, used, read = [], [], []
    for _ in range(4):
        with tempfile.TemporaryDirectory(prefix="bench-start-") as place:
            service = Service(Path(place), mysql, begin)
            began = time.monotonic()
            service.start()
            try:
                service.until(lambda status: status["store"]["put"] > 0, pause=0.02)
                took.append(time.monotonic() - began)
                used.append(service.cpu())
                drain(connect(service.http, service.flight), 1000)
                read.append(time.monotonic() - began)
            finally:
                service.stop()
    best = {"cpu_seconds": round(min(used[1:]), 2), "rows_read": round(min(read[1:]), 2)}
    report("service_start", min(took[1:]), "s", best | {"of": len(took) - 1, "limit": 2})


def backlog(inserts: int) -> list[str]:
    """Inserts by 1000, updates of a fifth by 100, deletes of a twentieth by 100: a transaction each."""
    steps = [
        (inserts, 1000, f"INSERT INTO bench.t SELECT at + d, {VALUES.replace('n', 'd')}, REPEAT('x', 100) FROM seed.d"),
        (inserts // 5, 100, "UPDATE bench.t SET n = n + 1 WHERE id >= at AND id < at + 100"),
        (inserts // 20, 100, "DELETE FROM bench.t WHERE id >= at AND id < at + 100"),
    ]
    loops = "".join(
        f"SET at = 0; WHILE at < {rows} DO {work}; SET at = at + {step}; END WHILE;" for rows, step, work in steps
    )
    run = f"CREATE PROCEDURE seed.work() BEGIN DECLARE at INT DEFAULT 0; {loops} END"
    return [f"CREATE TABLE bench.t {COLUMNS}", "SET sql_log_bin = 0", run, "SET sql_log_bin = 1", "CALL seed.work()"]


def small(transactions: int) -> list[str]:
    work = f"WHILE at < {transactions} DO INSERT INTO bench.s VALUES (at, 'value'); SET at = at + 1; END WHILE;"
    run = f"CREATE PROCEDURE seed.small() BEGIN DECLARE at INT DEFAULT 0; {work} END"
    table = "CREATE TABLE bench.s (id BIGINT PRIMARY KEY, v VARCHAR(20))"
    return [table, "SET sql_log_bin = 0", run, "SET sql_log_bin = 1", "CALL seed.small()"]


def config_of(mysql: MySqlServer, begin: tuple[str, int], size: int, **more: object) -> InstanceConfig:
    """A destination whose ring has room for a journal of so many bytes; `more` are fields of InstanceConfig."""
    return InstanceConfig.model_validate({
        "destination": "bench", "address": f"{mysql.host}:{mysql.port}", "user": mysql.user, "password": mysql.password,
        "filter_regex": r"bench\..*", "journal_name": begin[0], "position": begin[1], "buffer_size": size >> 9,
    } | more)  # fmt: skip


def read_all(mysql: MySqlServer, begin: tuple[str, int], rows: int, size: int, **more: object) -> tuple[float, float]:
    """Seconds and CPU seconds from connecting to the last row."""
    capture = Capture(config_of(mysql, begin, size, **more), MemoryNodes())
    began, used = time.monotonic(), _used(resource.RUSAGE_SELF)
    capture.start()
    try:
        with capture.store.changed:
            while capture.store.ring.put.rows < rows:
                assert capture.store.changed.wait(60), capture.status()
        return time.monotonic() - began, _used(resource.RUSAGE_SELF) - used
    finally:
        capture.stop()


def peer(mysql: MySqlServer, begin: tuple[str, int], place: Path) -> tuple[float, float]:
    """The same journal by mysqlbinlog, into a file."""
    command = [PEER, "--no-defaults", "--raw", "--read-from-remote-server", f"--result-file={place}/"]
    command += [f"--host={mysql.host}", f"--port={mysql.port}", f"--user={mysql.user}"]
    command += [f"--start-position={begin[1]}", begin[0]]
    began, used = time.monotonic(), _used(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env={**os.environ, "MYSQL_PWD": mysql.password})
    return time.monotonic() - began, _used(resource.RUSAGE_CHILDREN) - used


def _used(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def socket_to_store(mysql: MySqlServer, scale: float) -> None:
    """From MariaDB where that is installed: its mysqlbinlog is the peer, and reads from no other server."""
    if not shutil.which(PEER):
        _socket_to_store(mysql, scale, None)
        return
    with tempfile.TemporaryDirectory(prefix="bench-mariadb-") as directory:
        server = MySqlServer(MARIADB, Path(directory), **OPTIONS).start()
        try:
            _socket_to_store(server, scale, f"{PEER} --raw")
        finally:
            server.stop()


def _socket_to_store(mysql: MySqlServer, scale: float, peer_name: str | None) -> None:
    inserts = int(1_000_000 * scale)
    begin = fill(mysql, backlog(inserts))
    size = mysql.position()[1]
    rows, megabytes = inserts + inserts // 5 + inserts // 20, size / 1e6
    ours, theirs = [], []
    with tempfile.TemporaryDirectory(prefix="bench-raw-") as place:
        for _ in range(4):
            ours.append(read_all(mysql, begin, rows, size))
            if peer_name:
                theirs.append(peer(mysql, begin, Path(place)))
    config = {"source": mysql.version, "mb": round(megabytes), "rows": rows, "of": len(ours) - 1}
    config["cpu_seconds"] = round(min(used for _, used in ours[1:]), 2)
    if theirs:
        config["peer_cpu_seconds"] = round(min(used for _, used in theirs[1:]), 2)
    rate = megabytes / min(theirs[1:])[0] if theirs else None
    report("socket_to_store", megabytes / min(ours[1:])[0], "MB/s", config, peer_name, rate)


def small_transactions(mysql: MySqlServer, scale: float) -> None:
    count = int(200_000 * scale)
    begin = fill(mysql, small(count))
    runs = [read_all(mysql, begin, count, mysql.position()[1]) for _ in range(4)]
    seconds, used = min(runs[1:])
    config = {"transactions": count, "cpu_seconds": round(used, 2), "of": 3, "limit": 100_000}
    report("small_transactions", count / seconds, "transactions/s", config)


def report(
    name: str, value: float, unit: str, config: dict[str, Any], peer: str | None = None, other: float | None = None
) -> None:
    line = {"name": name, "value": round(value, 2), "unit": unit, "peer": peer, "peer_value": other and round(other, 2)}
    ratio = round(value / other, 3) if other else None
    print(json.dumps(line | {"ratio": ratio, "config": config | {"cores": os.cpu_count()}}), flush=True)


MEASUREMENTS = {
    "service_idle": idle,
    "service_rss_over_ring": memory,
    "service_large_row": large_row,
    "service_start": start,
    "socket_to_store": socket_to_store,
    "small_transactions": small_transactions,
}
OPTIONS: dict[str, Any] = {"innodb-flush-log-at-trx-commit": 0, "innodb-doublewrite": "OFF"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--only", choices=MEASUREMENTS, default=None)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-mysql-") as directory:
        mysql = MySqlServer("8.0.31", Path(directory), **OPTIONS).start()
        try:
            for name, measure in MEASUREMENTS.items():
                if given.only in (None, name):
                    measure(mysql, given.scale)
        finally:
            mysql.stop()


if __name__ == "__main__":
    main()

"""Many destinations in one process, few of them busy: what the service takes.

`many_destinations_cpu`: cores. `many_destinations_rss`: the most memory, in MB.
Two MySQL servers, a quiet one and a busy one, whose binlog the hundredth part of the destinations reads; each of these
has a database of its own that is written to, and is drained.

`one_server_cpu`, `one_server_rss`: the same where all destinations read the busy one, at 20 transactions a second with
200 destinations, by one shared connection (`sluice.dump.shared`). The peer is the same with a connection each.

    python -m tests.bench.bench_destinations [--count 200] [--seconds 60] [--threads] [--only quiet|one]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil

from cdc_core.client.connector import Connector
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.servers import free_port

CPU_LIMIT, RSS_LIMIT = 0.5, 1500  # cores, MB
ONE_SERVER_LIMIT = 0.15  # cores
_ROWS_A_SECOND = 100  # of a busy destination
_STARTS = 300.0  # seconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--threads", action="store_true", help="where the time goes, on the error stream")
    options.add_argument("--only", choices=("quiet", "one"), help="many_destinations or one_server alone")
    given = options.parse_args()
    size = given.count, given.seconds
    if given.only != "one":
        found = _round(Trial(*size, one=False, shared=False), given.threads)
        _report("many_destinations_cpu", round(found.cores, 3), "cores", found.config | {"limit": CPU_LIMIT})
        _report("many_destinations_rss", round(found.peak), "MB", found.config | {"limit": RSS_LIMIT})
    if given.only != "quiet":
        each = _round(Trial(*size, one=True, shared=False), given.threads)
        found = _round(Trial(*size, one=True, shared=True), given.threads)
        config = found.config | {"limit": ONE_SERVER_LIMIT, "dumps_each": each.config["dumps"]}
        _report("one_server_cpu", round(found.cores, 3), "cores", config, round(each.cores, 3))
        _report("one_server_rss", round(found.peak), "MB", found.config | {"limit": RSS_LIMIT}, round(each.peak))


class Trial(NamedTuple):
    """`one`: all destinations read the busy server. `shared`: by one connection."""

    destinations: int
    seconds: float
    one: bool
    shared: bool


class Found(NamedTuple):
    cores: float
    peak: float
    config: dict[str, object]


def _round(trial: Trial, threads: bool) -> Found:
    with tempfile.TemporaryDirectory(prefix="bench-destinations-") as name, ExitStack() as parts:
        return _measure(Path(name), parts, trial, threads)


def _measure(folder: Path, parts: ExitStack, trial: Trial, threads: bool) -> Found:
    count, seconds = trial.destinations, trial.seconds
    quiet, busy = (
        MySqlServer("8.0.31", folder / name, **{"max-connections": 2 * count + 100}) for name in ("quiet", "busy")
    )
    for server in (quiet, busy):
        parts.callback(server.stop)
        server.start()
    zookeeper = parts.enter_context(ZooKeeper(folder / "zookeeper", free_port()))
    names = [f"d{number}" for number in range(count)]
    worked = names[: max(1, count // 100)]
    for name in worked:
        busy.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY AUTO_INCREMENT, v TEXT)")
    http, flight = free_port(), free_port()
    sources = {name: busy if trial.one or name in worked else quiet for name in names}
    _configure(folder / "conf", zookeeper.hosts, (http, flight), sources, trial.shared)
    service = _start(folder, parts)
    began = time.monotonic()
    _wait_running(http, count)
    starts = time.monotonic() - began
    stop = threading.Event()
    work = [threading.Thread(target=_write, args=(busy, name, stop)) for name in worked]
    work += [threading.Thread(target=_drain, args=((http, flight), name, stop)) for name in worked]
    for thread in work:
        thread.start()
    time.sleep(10)  # everything that happens once has happened
    before, times = _cpu(service), _by_thread(service)
    time.sleep(seconds)
    cores = (_cpu(service) - before) / seconds
    after = _by_thread(service)
    peak = _peak(service)
    dumps = _dumps(busy)
    stop.set()
    for thread in work:
        thread.join()
    config: dict[str, object] = {
        "destinations": count,
        "busy": len(worked),
        "rows_a_second": _ROWS_A_SECOND,
        "seconds": seconds,
    }
    config |= {"threads": service.num_threads(), "starts_seconds": round(starts, 1), "dumps": dumps}
    if threads:
        _tell(times, after, seconds)
    return Found(cores, peak, config)


def _dumps(mysql: MySqlServer) -> int:
    """The connections by which the server sends its binlog."""
    with mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW PROCESSLIST")
        return sum(str(row[4]).startswith("Binlog Dump") for row in cursor.fetchall())


def _configure(conf: Path, hosts: str, doors: tuple[int, int], sources: dict[str, MySqlServer], shared: bool) -> None:
    starts = {mysql: mysql.position() for mysql in set(sources.values())}
    conf.mkdir()
    (conf / "canal.properties").write_text(
        f"canal.zkServers = {hosts}\ncanal.port = {free_port()}\n"
        f"canal.metrics.pull.port = {doors[0]}\nsluice.flight.port = {doors[1]}\n"
        f"sluice.dump.shared = {str(shared).lower()}\n"
    )
    for name, mysql in sources.items():
        journal, offset = starts[mysql]
        (conf / name).mkdir()
        (conf / name / "instance.properties").write_text(
            f"canal.instance.master.address={mysql.host}:{mysql.port}\n"
            f"canal.instance.dbUsername={mysql.user}\ncanal.instance.dbPassword={mysql.password}\n"
            f"canal.instance.master.journal.name={journal}\ncanal.instance.master.position={offset}\n"
            f"canal.instance.filter.regex={name}\\\\..*\n"
        )


def _start(folder: Path, parts: ExitStack) -> psutil.Process:
    command = [sys.executable, "-m", "orchestration.cli", "server", "--conf", str(folder / "conf")]
    log = parts.enter_context((folder / "log").open("wb"))
    process = psutil.Popen(command, stderr=log, stdout=subprocess.DEVNULL)
    parts.callback(process.wait, 60)
    parts.callback(process.terminate)
    return process


def _wait_running(http: int, count: int) -> None:
    deadline = time.monotonic() + _STARTS
    while _running(http) < count:
        assert time.monotonic() < deadline, f"{_running(http)} of {count} run"
        time.sleep(1)


def _running(http: int) -> int:
    try:
        told = httpx.get(f"http://127.0.0.1:{http}/v1/destinations", timeout=30, trust_env=False).json()
    except httpx.TransportError:
        return 0
    return sum(one["state"] == "running" for one in told)


def _write(mysql: MySqlServer, name: str, stop: threading.Event) -> None:
    """Transactions of ten rows."""
    rows = ", ".join(["(REPEAT('x', 80))"] * 10)
    with mysql.root(name) as connection, connection.cursor() as cursor:
        while not stop.wait(10 / _ROWS_A_SECOND):
            cursor.execute(f"INSERT INTO t (v) VALUES {rows}")


def _drain(doors: tuple[int, int], name: str, stop: threading.Event) -> None:
    http, flight = f"http://127.0.0.1:{doors[0]}", f"grpc://127.0.0.1:{doors[1]}"
    with Connector(http, name, flight_url=flight) as connector:
        while not stop.is_set():
            with connector.claim(1000, owner="bench", timeout_seconds=5) as claim:
                for table in claim.tables if claim else ():
                    connector.changes(claim, table.name).read_all()
            stop.wait(1)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _peak(process: psutil.Process) -> float:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1.024 / 1000


def _by_thread(process: psutil.Process) -> dict[str, tuple[str, float, int]]:
    """Of each thread: its name, seconds that it ran, and how often."""
    found = {}
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(FileNotFoundError):  # it has ended
            ran, _, slices = (task / "schedstat").read_text().split()
            found[task.name] = ((task / "comm").read_text().strip(), int(ran) / 1e9, int(slices))
    return found


def _tell(before: dict[str, tuple[str, float, int]], after: dict[str, tuple[str, float, int]], seconds: float) -> None:
    """Milliseconds and wake-ups a second of all threads of one name."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0])
    for task, (name, ran, slices) in after.items():
        _, ran_before, slices_before = before.get(task, ("", 0.0, 0))
        one = sums[name.rstrip("0123456789")]
        one[0] += 1
        one[1] += ran - ran_before
        one[2] += slices - slices_before
    for name, (number, ran, slices) in sorted(sums.items(), key=lambda item: -item[1][1])[:15]:
        line = f"{name:18} {number:4} threads {1000 * ran / seconds:8.2f} ms/s {slices / seconds:8.1f} times/s"
        print(line, file=sys.stderr)


def _report(name: str, value: float, unit: str, config: dict[str, object], each: float | None = None) -> None:
    """`each`: the same with a connection for each destination."""
    peer = None if each is None else "a connection each"
    ratio = None if each is None else round(each / value, 2)
    line = {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": each, "ratio": ratio}
    print(json.dumps(line | {"config": config}), flush=True)


if __name__ == "__main__":
    main()

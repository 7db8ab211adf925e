"""The monitor over fifty destinations of ten clusters, looked at every 5 s. Prints JSON.

One ZooKeeper has ten chroots with five destinations each, whose cursors move each second; one MySQL server answers as
fifty sources. `monitor_cpu` is the share of a core that the command takes, `monitor_rss` its memory at the end,
`monitor_page` the median of the whole page's answers, of which each is the first after a look.

    python -m tests.bench.bench_monitor [--seconds 60] [--clusters 10] [--destinations 5]
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import psutil
from kazoo.client import KazooClient

from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.bench.bench_service import OPTIONS, report
from tests.support.java_canal import cursor, java_nodes, write_nodes
from tests.support.servers import discard, free_port

EVERY = 5.0


class Cursors(threading.Thread):
    """Moves every cursor once a second."""

    def __init__(self, hosts: str, paths: dict[str, str], journal: str) -> None:
        super().__init__(daemon=True)
        self._client = KazooClient(hosts)
        self._paths, self._journal = paths, journal
        self._stopped = threading.Event()

    def run(self) -> None:
        self._client.start()
        offset = 4
        while not self._stopped.wait(1.0):
            offset += 1
            now = int(time.time() * 1000)
            for path, source in self._paths.items():
                self._client.set_async(path, cursor(self._journal, offset, now, source))
        self._client.stop()

    def stop(self) -> None:
        self._stopped.set()
        self.join(30)


def filled(hosts: str, clusters: int, destinations: int) -> dict[str, str]:
    """The paths of the cursors, with their sources."""
    client = KazooClient(hosts)
    client.start()
    paths = {}
    for cluster in range(clusters):
        for destination in range(destinations):
            name, source = f"shop_{destination}", f"source{cluster}x{destination}:3306"
            nodes = {f"/bench/g{cluster}{path}": value for path, value in java_nodes(name, source).items()}
            write_nodes(client, nodes)
            paths[next(path for path in nodes if path.endswith("/cursor"))] = source
    client.stop()
    return paths


def option_file(folder: Path, mysql: MySqlServer, sources: list[str]) -> Path:
    where = "".join(f"[{one}]\nhost = 127.0.0.1\nport = {mysql.port}\n" for one in sources)
    path = folder / "monitor.cnf"
    path.write_text(f"[client]\nuser = {mysql.user}\npassword = {mysql.password}\n{where}")
    return path


def measure(command: list[str], seconds: float) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("page: ").strip()
        threading.Thread(target=process.stdout.read, daemon=True).start()
        try:
            watched = psutil.Process(process.pid)
            time.sleep(3 * EVERY)
            client = httpx.Client(verify=False)  # to read the system's authorities takes 20 ms
            text = client.get(url).text
            shown = len(re.findall("data-destination", text))
            before, began = sum(watched.cpu_times()[:2]), time.monotonic()
            took = []
            while time.monotonic() - began < seconds:
                time.sleep(EVERY)
                asked = time.monotonic()
                client.get(url)
                took.append(1000 * (time.monotonic() - asked))
            used = sum(watched.cpu_times()[:2]) - before
            share = 100 * used / (time.monotonic() - began)
            memory = watched.memory_info().rss / 1e6
        finally:
            process.terminate()
    config = {"destinations": shown, "every": EVERY, "seconds": seconds, "page_bytes": len(text)}
    report("monitor_cpu", share, "% of a core", config | {"limit": 5})
    report("monitor_rss", memory, "MB", config | {"limit": 150})
    pages = config | {"limit": 200, "slowest": round(max(took), 1)}
    report("monitor_page", statistics.median(took), "ms", pages)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--clusters", type=int, default=10)
    options.add_argument("--destinations", type=int, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-monitor-") as directory:
        folder = Path(directory)
        zookeeper = ZooKeeper(folder / "zookeeper", free_port()).start()
        (folder / "mysql").mkdir()
        mysql = MySqlServer("8.0.31", folder / "mysql", **OPTIONS).start()
        paths = filled(zookeeper.hosts, given.clusters, given.destinations)
        cursors = Cursors(zookeeper.hosts, paths, mysql.position()[0])
        cursors.start()
        command = [
            sys.executable,
            "-m",
            "orchestration",
            "monitor",
            "--port",
            "0",
            "--every",
            str(EVERY),
            "--mysql-file",
        ]
        command += [str(option_file(folder, mysql, sorted(paths.values())))]
        for cluster in range(given.clusters):
            command += ["--zookeeper", f"{zookeeper.hosts}/bench/g{cluster}"]
        try:
            measure(command, given.seconds)
        finally:
            cursors.stop()
            discard(mysql)
            zookeeper.kill()


if __name__ == "__main__":
    main()

"""A backlog from MySQL to Arrow in a client: dump, decode, claims, Flight, acks. Prints JSON.

`flight_rows`: what each batch leaves behind, per key; `flight_changes`: every change. The rows that the ring held
when the client began are not counted, what they took is. Server and client are a process each. The peer is a stock
Canal in CANAL_HOME, if there is one, with a client that parses every row change: it reads the same work twice and is
measured the second time, when its code is compiled.

    python -m tests.bench.bench_flight [--scale 0.1] [--runs 3]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestration.stack.mysql.server import MySqlServer
from tests.bench import canal
from tests.bench.bench_service import OPTIONS, RING, backlog, fill, report, serving
from tests.bench.drain import AHEAD

MODES = {"flight_rows": "net", "flight_changes": "changes"}


@dataclass(frozen=True, slots=True)
class Run:
    """Rows a second, CPU seconds and the most memory in MB, of server and client."""

    rate: float
    cpu: tuple[float, float]
    memory: tuple[float, float]

    def told(self) -> dict[str, object]:
        return {
            "rows_per_second": round(self.rate), "cpu_seconds": round(sum(self.cpu), 2),
            "server_cpu_seconds": round(self.cpu[0], 2), "memory_mb": round(sum(self.memory)),
            "server_memory_mb": round(self.memory[0]),
        }  # fmt: skip


def follow(server: psutil.Process, command: list[str], ahead: int = 0, used: float | None = None) -> Run:
    """From the client's first line to its second; `used` is the server's CPU time before it took what is `ahead`."""
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}  # what one thread freed is the other's: 30 MB less
    client = psutil.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert client.stdout.readline().strip() == "begin"
        before = _cpu(server) if used is None else used, _cpu(client)
        told = json.loads(client.stdout.readline())
        cpu = _cpu(server) - before[0], _cpu(client) - before[1]
        return Run((told["rows"] - ahead) / told["seconds"], cpu, (_peak(server), _peak(client)))
    finally:
        client.stdin.close()
        client.wait(30)


def ours(mysql: MySqlServer, begin: tuple[str, int], rows: int, mode: str) -> Run:
    with serving(mysql, begin, canal__instance__global__lazy=True) as service:
        assert service.process is not None
        service.until_warm()
        used = service.cpu()
        service.begin()
        full = lambda status: status["store"]["bytes"] > 0.9 * RING or status["backlog_rows"] >= rows  # noqa: E731
        service.until(full, pause=0.5)  # to ask costs the service something
        client = [sys.executable, "-m", "tests.bench.drain", str(service.http), str(service.flight), str(rows), mode]
        return follow(service.process, client, service.status()["backlog_rows"], used)


def theirs(place: Path, mysql: MySqlServer, warm: tuple[str, int], rows: int) -> Run:
    with canal.canal(place, mysql, warm) as peer:
        return follow(peer.process, [*peer.client, str(rows), str(2 * rows)])


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _peak(process: psutil.Process) -> float:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1000 * 1.024


def compare(name: str, runs: list[Run], peers: list[Run], rows: int) -> None:
    """Prints the best runs of both, and all runs beside. Without a Canal there is no peer."""
    best = max(runs, key=lambda run: run.rate)
    config: dict[str, object] = {"changed_rows": rows, "of": len(runs), **AHEAD}
    config |= best.told()
    place = canal.home()
    if place is None:
        report(name, best.rate, "rows/s", config)
        return
    peer = max(peers, key=lambda run: run.rate)
    config |= {f"peer_{key}": value for key, value in peer.told().items()}
    config["cpu_of_peers"] = round(sum(best.cpu) / sum(peer.cpu), 3)
    config["memory_of_peers"] = round(sum(best.memory) / sum(peer.memory), 3)
    config["runs"] = [run.told() for run in runs]
    config["peer_runs"] = [run.told() for run in peers]
    report(name, best.rate, "rows/s", config, f"canal {canal.version(place)} (Java)", peer.rate)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--runs", type=int, default=3)
    given = options.parse_args()
    inserts = int(1_000_000 * given.scale)
    rows = inserts + inserts // 5 + inserts // 20
    runs: dict[str, list[Run]] = {name: [] for name in MODES}
    peers: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="bench-mysql-") as directory:
        mysql = MySqlServer("8.0.31", Path(directory), **OPTIONS).start()
        try:
            warm, begin = (fill(mysql, backlog(inserts)) for _ in "12")
            for _ in range(given.runs):
                for name, mode in MODES.items():
                    runs[name].append(ours(mysql, begin, rows, mode))
                if place := canal.home():
                    peers.append(theirs(place, mysql, warm, rows))
        finally:
            mysql.stop()
    for name in MODES:
        compare(name, runs[name], peers, rows)


if __name__ == "__main__":
    main()

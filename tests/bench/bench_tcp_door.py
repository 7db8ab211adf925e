"""A backlog from MySQL to a client of Canal's TCP protocol: dump, entries, acks. Prints JSON.

`tcp_door`: to a client that only counts rows; `tcp_door_java`: to Canal's own client, which parses every row change.
The peer is a stock Canal in CANAL_HOME, if there is one, with the same clients. Each reads the same work twice and is
measured the second time. CPU seconds are the server's.
`tcp_idle_cpu`, `tcp_idle_memory`: 500 connections that wait for rows which do not come, beside none.

    python -m tests.bench.bench_tcp_door [--scale 0.1] [--runs 2] [--only idle]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from cdc_core.canal.client import CanalConnector
from cdc_core.canal.protocol.declared import Get, PacketType
from orchestration.stack.mysql.server import MySqlServer
from tests.bench import canal
from tests.bench.bench_flight import Run, follow
from tests.bench.bench_service import OPTIONS, RING, Service, backlog, fill, report, serving

CONNECTIONS = 500
COUNTING = [sys.executable, "-m", "tests.bench.tcp_drain"]


def ours(mysql: MySqlServer, warm: tuple[str, int], rows: int, client: list[str]) -> Run:
    with serving(mysql, warm, sluice__tcp__anyone="true") as service:
        assert service.process is not None
        service.until_warm()
        return follow(service.process, [*client, str(service.tcp), "bench", str(rows), str(2 * rows)])


def theirs(place: Path, mysql: MySqlServer, warm: tuple[str, int], rows: int, *, java: bool) -> Run:
    with canal.canal(place, mysql, warm) as peer:
        port = peer.client[-2]
        client = (
            [*peer.client, str(rows), str(2 * rows)] if java else [*COUNTING, port, "bench", str(rows), str(2 * rows)]
        )
        return follow(peer.process, client)


def tell(name: str, runs: list[Run], peers: list[Run], rows: int) -> None:
    """The best runs of both, and all beside."""
    best = max(runs, key=lambda run: run.rate)
    config: dict[str, object] = {"changed_rows": rows, "ring_mb": RING >> 20, **best.told()}
    config["memory_over_ring_mb"] = round(best.memory[0] - (RING >> 20))
    config["runs"] = [run.told() for run in runs]
    place = canal.home()
    if place is None or not peers:
        report(name, best.rate, "rows/s", config)
        return
    peer = max(peers, key=lambda run: run.rate)
    config["server_cpu_of_peers"] = round(best.cpu[0] / peer.cpu[0], 3)
    config["peer_runs"] = [run.told() for run in peers]
    report(name, best.rate, "rows/s", config, f"canal {canal.version(place)} (Java)", peer.rate)


def idle(mysql: MySqlServer, seconds: float = 20.0) -> None:
    """What connections cost that only wait."""
    with serving(mysql, mysql.position(), sluice__tcp__anyone="true") as service:
        service.until_warm()
        before, alone = _rest(service, seconds)
        clients = [CanalConnector("127.0.0.1", service.tcp, "bench") for _ in range(CONNECTIONS)]
        for client in clients:
            client.connect()
            _wait_for_ever(client)
        cores, memory = _rest(service, seconds)
        for client in clients:
            client.disconnect()
    config = {"connections": CONNECTIONS, "seconds": seconds}
    report(
        "tcp_idle_cpu", (cores - before) * 100, "% of a core", config | {"without": round(before * 100, 2), "limit": 2}
    )
    report("tcp_idle_memory", memory - alone, "MB", config | {"without": round(alone), "limit": 100})


def _wait_for_ever(client: CanalConnector) -> None:
    """Sends a GET whose answer nobody reads."""
    names = {"destination": "bench", "client_id": "1001"}
    client._connected().send(PacketType.GET, Get(**names, fetch_size=1, timeout=0, unit=2))


def _rest(service: Service, seconds: float) -> tuple[float, float]:
    """Cores that the service uses while nothing happens, and its memory in MB."""
    used = service.cpu()
    time.sleep(seconds)
    return (service.cpu() - used) / seconds, service.memory()["now"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--runs", type=int, default=2)
    options.add_argument("--only", choices=["idle"], default=None)
    given = options.parse_args()
    inserts = int(1_000_000 * given.scale)
    rows = inserts + inserts // 5 + inserts // 20
    place = canal.home()
    names = ["tcp_door", "tcp_door_java"] if place else ["tcp_door"]
    runs: dict[str, list[Run]] = {name: [] for name in names}
    peers: dict[str, list[Run]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="bench-mysql-") as directory:
        mysql = MySqlServer("8.0.31", Path(directory), **OPTIONS).start()
        try:
            idle(mysql)
            if given.only == "idle":
                return
            warm, _ = (fill(mysql, backlog(inserts)) for _ in "12")
            for _ in range(given.runs):
                for name in names:
                    client = COUNTING
                    if place and name == "tcp_door_java":
                        source = Path(canal.__file__).parent / "Drain.java"
                        client = canal.client(place, Path(directory), source, 0, "bench")[:-2]
                    runs[name].append(ours(mysql, warm, rows, client))
                    if place:
                        peers[name].append(theirs(place, mysql, warm, rows, java=name == "tcp_door_java"))
        finally:
            mysql.stop()
    for name in names:
        tell(name, runs[name], peers[name], rows)


if __name__ == "__main__":
    main()

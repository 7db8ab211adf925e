"""How long a destination stands still when the server that runs it is killed.

`failover`: seconds from kill -9 to the other server's dump, beyond the ZooKeeper session's time-out.

    python -m tests.bench.bench_failover [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path

from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.failover import SESSION, node, until
from tests.support.servers import free_port


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        taken = measured(Path(name), rounds)
    beyond = sorted(seconds - SESSION for seconds in taken)
    print(json.dumps({
        "name": "failover", "value": round(beyond[len(beyond) // 2], 2), "unit": "s", "peer": None,
        "peer_value": None, "ratio": None,
        "config": {"session_seconds": SESSION, "rounds": rounds, "worst": round(beyond[-1], 2)},
    }))  # fmt: skip


def measured(folder: Path, rounds: int) -> list[float]:
    """Seconds of each take-over; the killed one is started again each time."""
    with ExitStack() as parts:
        mysql = MySqlServer("8.0.31", folder / "mysql")
        parts.callback(mysql.stop)
        zookeeper = parts.enter_context(ZooKeeper(folder / "zookeeper", free_port()))
        database = parts.enter_context(mysql.start().database())
        active, other = (node(folder / name, zookeeper.hosts, mysql, database) for name in ("a", "b"))
        with active.service, other.service:
            until(lambda: active.reads)
            taken = []
            for _ in range(rounds):
                active.service.kill()
                taken.append(until(lambda node=other: node.reads))  # type: ignore[misc]
                active.service.start()
                active, other = other, active
    return taken


if __name__ == "__main__":
    main()

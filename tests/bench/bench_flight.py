"""A backlog from MySQL to Arrow in a client: dump, decode, claims, Flight, acks. Prints JSON.

`flight_rows`: what each batch leaves behind, per key; `flight_changes`: every change. The rows that the ring held
when the client began are not counted.

    python -m tests.bench.bench_flight [--scale 0.1]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from orchestration.stack.mysql import MySqlServer
from tests.bench.bench_service import OPTIONS, RING, backlog, drain, fill, report, serving


def measure(mysql: MySqlServer, begin: tuple[str, int], rows: int, mode: str) -> tuple[float, dict[str, object]]:
    """Rows a second, and what it took."""
    with serving(mysql, begin) as service:
        service.until(lambda status: status["store"]["bytes"] > 0.9 * RING or status["backlog_rows"] >= rows)
        ahead, service_used, own = service.status()["backlog_rows"], service.cpu(), resource.getrusage(0)
        began = time.monotonic()
        drain(service, rows, mode=mode)
        seconds = time.monotonic() - began
        ended = resource.getrusage(0)
        client_used = ended.ru_utime + ended.ru_stime - own.ru_utime - own.ru_stime
        config: dict[str, object] = {
            "changed_rows": rows,
            "seconds": round(seconds, 2),
            "service_cpu_seconds": round(service.cpu() - service_used, 2),
            "client_cpu_seconds": round(client_used, 2),
            "service_peak_mb": round(service.memory()["peak"]),
        }
        return (rows - ahead) / seconds, config


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    inserts = int(1_000_000 * options.parse_args().scale)
    rows = inserts + inserts // 5 + inserts // 20
    with tempfile.TemporaryDirectory(prefix="bench-mysql-") as directory:
        mysql = MySqlServer("8.0.31", Path(directory), **OPTIONS).start()
        try:
            begin = fill(mysql, backlog(inserts))
            for name, mode in (("flight_rows", "net"), ("flight_changes", "changes")):
                runs = [measure(mysql, begin, rows, mode) for _ in range(3)]
                rate, config = max(runs, key=lambda run: run[0])
                report(name, rate, "rows/s", config | {"of": len(runs), "splits": 2, "batch_rows": 100_000})
        finally:
            mysql.stop()


if __name__ == "__main__":
    main()

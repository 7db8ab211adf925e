"""The service in front of thousands of tables: what grows with them.

`service_tables`: MB of memory with a row of each table outstanding; beside it the seconds of a start, of a claim with
a row of every table, of the plan of one of its tables, of its ack, of a status, of `/metrics` and of the definitions,
with the bytes of their answers. The same for a hundredth of the tables, in the same run.

    python -m tests.bench.bench_service_tables [--count 10000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from cdc_core.client.connector import Connector
from orchestration.stack.mysql.server import MySqlServer
from tests.bench.bench_service import Service, report

_COLUMNS = "(id INT PRIMARY KEY, name VARCHAR(64), price DECIMAL(12,2), seen DATETIME(3), note TEXT)"
_PATIENCE = 900.0  # seconds
_LIMIT = 1500  # MB


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=10_000)
    given = options.parse_args()
    few, many = (_measured(max(1, count)) for count in (given.count // 100, given.count))
    report("service_tables", many.pop("rss_mb"), "MB", {"limit": _LIMIT} | many | {"few": few})


def _measured(count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-tables-") as name:
        folder = Path(name)
        mysql = MySqlServer("8.0.31", folder / "mysql")
        mysql.start()
        try:
            return _with_tables(mysql, folder, count)
        finally:
            mysql.stop()


def _with_tables(mysql: MySqlServer, folder: Path, count: int) -> dict[str, Any]:
    mysql.execute("CREATE DATABASE bench")
    names = [f"t{number:05d}" for number in range(count)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: _make(mysql, part), [names[n : n + 100] for n in range(0, count, 100)]))
    service = Service(folder / "conf", mysql, mysql.position(), **{"sluice__store__bytes": 1 << 30})
    began = time.monotonic()
    service.start()
    try:
        service.until(lambda status: status.get("state") == "running", _PATIENCE, 0.2)
        found: dict[str, Any] = {"tables": count, "start_seconds": _seconds(began), "start_mb": service.memory()["now"]}
        service.until_warm()
        Connector(f"http://127.0.0.1:{service.http}", "bench").subscribe()
        with mysql.root("bench") as connection, connection.cursor() as cursor:
            for name in names:
                cursor.execute(f"INSERT INTO {name} VALUES (1, 'a', 1.5, NOW(3), 'note')")
        service.until(lambda status: status["backlog_rows"] == count, _PATIENCE, 0.2)
        found |= _asked(service, count) | {"rss_mb": service.memory()["peak"]}
        return {key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}
    finally:
        service.stop()


def _make(mysql: MySqlServer, names: list[str]) -> None:
    mysql.execute(*(f"CREATE TABLE {name} {_COLUMNS}" for name in names), database="bench")


def _asked(service: Service, count: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{service.http}"
    found: dict[str, Any] = {}
    with Connector(url, "bench", flight_url=f"grpc://127.0.0.1:{service.flight}", timeout_seconds=_PATIENCE) as client:
        began = time.monotonic()
        with client.claim(10 * count, owner="bench", timeout_seconds=30) as claim:
            found["claim_seconds"] = _seconds(began)
            assert claim is not None
            assert len(claim.tables) == count
            began = time.monotonic()
            for table in claim.tables[: min(count, 20)]:
                assert client.changes(claim, table.name).read_all().num_rows == 1
            found["plan_seconds"] = _seconds(began) / min(count, 20)
            for name, path in (
                ("status", "/v1/destinations/bench"), ("all_status", "/v1/destinations"), ("metrics", "/metrics"),
                ("positions", "/v1/destinations/bench/positions"), ("definitions", "/v1/destinations/bench/tables"),
                ("client", "/v1/destinations/bench/clients/1001"),
            ):  # fmt: skip
                found |= _answer(name, lambda path=path: httpx.get(url + path, trust_env=False, timeout=_PATIENCE))
            began = time.monotonic()
        found["ack_seconds"] = _seconds(began)
    return found


def _answer(name: str, ask: Callable[[], httpx.Response]) -> dict[str, Any]:
    began = time.monotonic()
    answer = ask().raise_for_status()
    return {f"{name}_seconds": _seconds(began), f"{name}_bytes": len(answer.content)}


def _seconds(began: float) -> float:
    return time.monotonic() - began


if __name__ == "__main__":
    main()

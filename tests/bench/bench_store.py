"""The store on disk beside the ring in memory, in front of a real MySQL.

`store_disk`: reading a journal into volumes, beside the same into a ring that holds it all.
`store_disk_rows`: rows of one claim over all of it decoded from volumes, beside the same from memory.
`store_disk_flight`: the same rows through Flight to a client, from a service with a store on disk beside one without.
`store_disk_claim`: the most memory that is no file's, over the ring, while a service hands out all of it as one claim.
`store_disk_restart`: from a start with all of it on disk to the first claim.
`store_disk_claim_large`, `store_disk_restart_large`: the same of 4 GB in one claim, and of 8 GB, in another process.

    python -m tests.bench.bench_store [--scale 0.1] [--only flight]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from cdc_core.client.changes import FlightRows
from cdc_core.contract.claim import Claim
from cdc_core.destination.capture import Capture
from cdc_core.meta.nodes import MemoryNodes, Nodes
from cdc_core.rows.net import plan_changes, read
from orchestration.stack.mysql.server import MySqlServer
from tests.bench.bench_service import OPTIONS, RING, Service, backlog, config_of, fill, read_all, report, serving
from tests.bench.drain import connect, drain

CLIENT = 1001
DISK = {"store_bytes": 64 << 30, "buffer_size": RING >> 10}


@contextmanager
def capturing(capture: Capture) -> Iterator[Capture]:
    capture.start()
    try:
        yield capture
    finally:
        capture.stop(60)


def claimed(capture: Capture, rows: int) -> Claim:
    """A claim of so many rows, once they are there; it counts as lost afterwards."""
    deadline = time.monotonic() + 600
    while capture.store.ring.put.rows < rows:
        assert time.monotonic() < deadline, capture.status()
        time.sleep(0.01)
    found = capture.service.claim(CLIENT, rows, 60, "bench", 600)
    assert found is not None
    return found


def decoded(capture: Capture, rows: int) -> float:
    """Seconds for all rows of one claim, in one thread."""
    found = claimed(capture, rows)
    began = time.monotonic()
    plan = plan_changes(capture.service.slices(CLIENT, found.batch_id), capture.registry, found.tables[0].name)
    seen = sum(batch.num_rows for split in range(len(plan.splits)) for batch in read(plan, split))
    seconds = time.monotonic() - began
    assert seen >= rows
    capture.service.rollback(CLIENT, None, None, "bench")
    return seconds


def into_volumes(mysql: MySqlServer, begin: tuple[str, int], rows: int, size: int) -> None:
    memory, disk = [], []
    for _ in range(4):
        memory.append(read_all(mysql, begin, rows, size))
        with tempfile.TemporaryDirectory(prefix="bench-store-") as place:
            disk.append(read_all(mysql, begin, rows, size, **DISK, store_dir=place))
    ours, theirs = min(disk[1:]), min(memory[1:])
    config = {"mb": round(size / 1e6), "cpu_seconds": round(ours[1], 2), "peer_cpu_seconds": round(theirs[1], 2)}
    rate = size / 1e6
    report("store_disk", rate / ours[0], "MB/s", config | {"limit": 0.9}, "ring in memory", rate / theirs[0])


def rows_and_restart(mysql: MySqlServer, begin: tuple[str, int], rows: int, size: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-store-") as place:
        nodes: Nodes = MemoryNodes()
        on_disk = Capture(config_of(mysql, begin, size, **DISK, store_dir=place), nodes)
        in_memory = Capture(config_of(mysql, begin, size), MemoryNodes())
        with capturing(on_disk) as disk, capturing(in_memory) as memory:
            pairs = [(decoded(disk, rows), decoded(memory, rows)) for _ in range(4)]
        ours, theirs = (rows / min(times[1:]) for times in zip(*pairs, strict=True))
        report("store_disk_rows", ours, "rows/s", {"rows": rows, "limit": 0.95}, "the same from memory", theirs)

        began = time.monotonic()
        with capturing(Capture(config_of(mysql, begin, size, **DISK, store_dir=place), nodes)) as again:
            while again.status().state != "running":
                time.sleep(0.005)
            assert again.service.claim(CLIENT, 1000, 60, "bench", 600) is not None
            seconds = time.monotonic() - began
            held = again.store.ring.log.nbytes
        report("store_disk_restart", seconds, "s", {"mb_on_disk": round(held / 1e6), "limit": 2})


def streamed(service: Service, rows: int) -> float:
    """Seconds from a claim of so many rows until a client has them all; it is given back then."""
    with connect(service.http, service.flight) as connector, FlightRows(connector.flight_url) as door:
        claim = connector.get_without_ack(rows, owner="bench", timeout_seconds=60, lease_seconds=600)
        assert claim is not None
        began = time.monotonic()
        plan = door.info(claim, claim.tables[0].name, mode="changes", splits=2)
        with ThreadPoolExecutor(2) as pool:
            seen = sum(pool.map(lambda ticket: sum(part.num_rows for part in door.split(ticket)), plan.tickets))
        seconds = time.monotonic() - began
        assert seen >= rows
        connector.rollback(claim, reason="bench")
    return seconds


def through_flight(mysql: MySqlServer, begin: tuple[str, int], rows: int, size: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-store-") as place:
        on_disk = {"sluice__store__bytes": 64 << 30, "sluice__store__dir": place}
        in_memory = {"canal__instance__memory__buffer__size": size >> 9}
        with serving(mysql, begin, **on_disk) as disk, serving(mysql, begin, **in_memory) as memory:
            for service in (disk, memory):
                service.until(lambda status: status["backlog_rows"] >= rows, seconds=1200)
                service.until_warm()
            pairs = [(streamed(disk, rows), streamed(memory, rows)) for _ in range(4)]
        ours, theirs = (rows / min(times[1:]) for times in zip(*pairs, strict=True))
        report("store_disk_flight", ours, "rows/s", {"rows": rows, "limit": 0.95}, "the same from memory", theirs)


def sample(service: Service, seen: list[float], done: threading.Event) -> None:
    while not done.wait(0.05):
        seen.append(service.memory()["anonymous"])


def one_claim(mysql: MySqlServer, begin: tuple[str, int], rows: int, size: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-store-") as place:
        keys = {"sluice__store__bytes": 64 << 30, "sluice__store__dir": place}
        with serving(mysql, begin, **keys) as service:
            service.until(lambda status: status["backlog_rows"] >= rows, seconds=600)
            before = service.memory()["anonymous"]
            seen, done = [before], threading.Event()
            watch = threading.Thread(target=sample, args=(service, seen, done))
            watch.start()
            assert drain(connect(service.http, service.flight), rows, batch=rows, mode="changes", splits=4) >= rows
            done.set()
            watch.join()
        ring = RING / 1e6
        config = {"claim_mb": round(size / 1e6), "before": round(before - ring), "limit": 300}
        report("store_disk_claim", max(seen) - ring, "MB", config)


def wide(gigabytes: float) -> tuple[list[str], int]:
    """What writes so much binlog in rows of 4 kB, and their number. The table itself keeps nothing."""
    thousands = int(gigabytes * 1e9 / 4_000_000)
    row = "INSERT INTO bench.t SELECT at * 1000 + d, REPEAT(CHAR(33 + d % 90), 3970) FROM seed.d"
    work = f"SET at = 0; WHILE at < {thousands} DO {row}; SET at = at + 1; END WHILE;"
    procedure = f"CREATE PROCEDURE seed.wide() BEGIN DECLARE at INT DEFAULT 0; {work} END"
    table = "CREATE TABLE bench.t (id BIGINT PRIMARY KEY, note VARCHAR(4000) CHARACTER SET latin1) ENGINE=BLACKHOLE"
    return [table, "SET sql_log_bin = 0", procedure, "SET sql_log_bin = 1", "CALL seed.wide()"], thousands * 1000


def large(mysql: MySqlServer, scale: float) -> None:
    statements, rows = wide(8 * scale)
    begin = fill(mysql, statements)
    with tempfile.TemporaryDirectory(prefix="bench-store-") as place, tempfile.TemporaryDirectory() as conf:
        keys = {"sluice__store__bytes": 64 << 30, "sluice__store__dir": place}
        service = Service(Path(conf), mysql, begin, **keys)
        for stop in (False, True):
            began = time.monotonic()
            service.start()
            try:
                service.until(lambda status: "state" in status, seconds=600, pause=0.01)
                answers, used = time.monotonic() - began, service.cpu()
                if not stop:
                    service.until(lambda status: status["backlog_rows"] >= rows, seconds=3600, pause=1)
                    claimed_at_once(service, rows // 2, 4 * scale)
                    continue
                with connect(service.http, service.flight) as connector:
                    service.until(lambda status: status["state"] == "running", seconds=600, pause=0.01)
                    assert connector.get_without_ack(1000, owner="bench", timeout_seconds=60) is not None
                    seconds, held = time.monotonic() - began, service.status()["store"]["bytes"]
                config = {"mb_on_disk": round(held / 1e6), "until_it_answers": round(answers, 2), "limit": 2}
                config |= {"cpu_seconds": round(service.cpu(), 2), "cpu_until_it_answers": round(used, 2)}
                report("store_disk_restart_large", seconds, "s", config)
            finally:
                service.stop()


def claimed_at_once(service: Service, rows: int, gigabytes: float) -> None:
    """The most memory over the ring while one claim of so many rows is handed out; it is given back."""
    before = service.memory()["anonymous"]
    seen, done = [before], threading.Event()
    watch = threading.Thread(target=sample, args=(service, seen, done))
    watch.start()
    seconds = streamed(service, rows)
    done.set()
    watch.join()
    ring = RING / 1e6
    config = {"claim_gb": gigabytes, "before": round(before - ring), "seconds": round(seconds), "limit": 300}
    report("store_disk_claim_large", max(seen) - ring, "MB", config)


MEASUREMENTS = {"into": into_volumes, "rows": rows_and_restart, "flight": through_flight, "claim": one_claim}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--only", choices=[*MEASUREMENTS, "large"], default=None)
    given = options.parse_args()
    scale = given.scale
    with tempfile.TemporaryDirectory(prefix="bench-mysql-") as directory:
        mysql = MySqlServer("8.0.31", Path(directory), **OPTIONS).start()
        try:
            if given.only in (None, "large"):
                large(mysql, scale)
            if given.only == "large":
                return
            inserts = int(4_000_000 * scale)
            begin = fill(mysql, backlog(inserts))
            rows, size = inserts + inserts // 5 + inserts // 20, mysql.position()[1]
            for name, measure in MEASUREMENTS.items():
                if given.only in (None, name):
                    measure(mysql, begin, rows, size)
        finally:
            mysql.stop()


if __name__ == "__main__":
    main()

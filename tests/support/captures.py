"""One capture in this process, in front of a server of the test: started, waited for, claimed from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdc_core.config import InstanceConfig
from cdc_core.contract.claim import Claim
from cdc_core.destination.capture import Capture
from cdc_core.meta.nodes import Nodes
from orchestration.stack.mysql.server import MySqlServer
from tests.support.reading import until_read
from tests.support.servers import purge as purge_to

CLIENT = 1001
_PATIENCE = 60.0  # seconds, for a capture on a machine that is busy with other things


def config(mysql: MySqlServer, database: str, **changes: Any) -> InstanceConfig:
    """Captures `database` of that server, with a heartbeat a second; `changes` are fields of InstanceConfig."""
    values = {
        "destination": "shop",
        "address": f"{mysql.host}:{mysql.port}",
        "user": mysql.user,
        "password": mysql.password,
        "filter_regex": rf"{database}\..*",
        "heartbeat_seconds": 1,
    }
    return InstanceConfig.model_validate(values | changes)


def on_disk(mysql: MySqlServer, database: str, path: Path, **changes: Any) -> InstanceConfig:
    """The same with a store on disk."""
    return config(mysql, database, store_bytes=1 << 30, store_dir=path, **changes)


@contextmanager
def running(config: InstanceConfig, nodes: Nodes, **options: Any) -> Iterator[Capture]:
    """A capture that has connected. With `wait=False` it may not have yet."""
    wait = options.pop("wait", True)
    capture = Capture(config, nodes, pauses=(0.2, 1.0), **options)
    capture.start()
    try:
        if wait:
            until(lambda: capture.status().state == "running", capture)
        yield capture
    finally:
        capture.stop()


def until(condition: Callable[[], Any], capture: Capture, seconds: float = _PATIENCE) -> Any:
    """Waits until the condition holds, and returns what it gave; fails with the status of the capture."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, capture.status()
        time.sleep(0.02)
    return found


def all_read(capture: Capture, mysql: MySqlServer) -> None:
    """Waits until the capture has read all that the server has written."""
    until_read(capture.status, mysql, _PATIENCE)


def claim(capture: Capture, rows: int = 1000, owner: str = "run-1", lease: float = 60) -> Claim:
    """A claim of what is there, which need not be all that was written; waits for some."""
    found = capture.service.claim(CLIENT, rows, _PATIENCE, owner, lease)
    assert found is not None, capture.status()
    return found


def drain(capture: Capture, rows: int) -> int:
    """Claims and acks until so many rows came; returns their number."""
    seen = 0
    while seen < rows:
        found = claim(capture)
        seen += found.rows
        capture.service.ack(CLIENT, found.batch_id, found.owner)
    return seen


def execute(mysql: MySqlServer, database: str, *statements: str) -> None:
    """Executes the statements, as one transaction if there are several."""
    connection = mysql.root(database)
    with connection, connection.cursor() as cursor:
        if len(statements) > 1:
            cursor.execute("BEGIN")
        for statement in statements:
            cursor.execute(statement)
        if len(statements) > 1:
            cursor.execute("COMMIT")


def purge(mysql: MySqlServer) -> None:
    """Removes all binlogs but a new one."""
    mysql.execute("FLUSH BINARY LOGS")
    purge_to(mysql, mysql.position()[0])

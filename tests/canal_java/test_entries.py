"""A Java Canal's entries of rows of every type: `RECORD=1` writes what it gives into the fixture of
`tests/cdc_core/entries/test_as_canal.py`, else it must be the same."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestration.stack.mysql.server import MySqlServer
from tests.bench.canal import configure, home, launch
from tests.support.canal_client import CanalClient, connected
from tests.support.canal_matrix import comparable, statements
from tests.support.servers import free_port

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(home() is None, reason="CANAL_HOME names no unpacked Canal deployer (docs/benchmarks.md)"),
]
FIXTURE = Path(__file__).parents[1] / "fixtures" / "canal_entries.json"


@pytest.fixture
def canal(mysql8: MySqlServer, tmp_path: Path) -> Iterator[int]:
    """The port of a Java Canal that reads the database `matrix` from now on."""
    place = home()
    assert place is not None
    mysql8.execute("DROP DATABASE IF EXISTS matrix", "CREATE DATABASE matrix")
    port = free_port()
    configure(tmp_path, port, mysql8, mysql8.position(), "matrix")
    server = launch(place, tmp_path, port)
    yield port
    server.terminate()
    server.wait(30)
    mysql8.execute("DROP DATABASE matrix")


def test_the_record_is_what_canal_gives(canal: int, mysql8: MySqlServer) -> None:
    """Statement by statement, since a Canal without a history of definitions looks tables up as they are now."""
    found: list[Any] = []
    with connected(canal, destination="matrix") as client, mysql8.root() as link, link.cursor() as cursor:
        client.subscribe()
        _read(client, found, 4.0)
        for statement in statements("matrix"):
            cursor.execute(statement)
            _read(client, found, 0.3)
        _read(client, found, 3.0)
    entries = comparable(found, "matrix")
    if os.environ.get("RECORD"):
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        FIXTURE.write_text(f"[\n{lines}\n]\n")
    assert entries == json.loads(FIXTURE.read_text())


def _read(client: CanalClient, found: list[Any], seconds: float) -> None:
    """What comes within that time, and the rest of an open transaction."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or (found and found[-1].entryType == 1):
        messages = client.get(1000, 100, 2)
        found += client.entries(messages)
        if messages.batch_id > 0:
            client.ack(messages.batch_id)

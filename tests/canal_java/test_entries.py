"""A Java Canal's entries of rows of every type: `RECORD=1` writes what it gives into the fixture of
`tests/cdc_core/canal/entries/test_as_canal.py`, and its flat messages into that of
`tests/cdc_core/canal/queues/test_flat_as_canal.py`, else they must be the same."""

from __future__ import annotations

import base64
import json
import os
import subprocess
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
FLAT_FIXTURE = FIXTURE.with_name("canal_flat_messages.json")
RULES = (
    ["4", r".*\..*:$pk$", "true"],
    ["5", r".*\..*:$pk$", "false"],
    ["3", r"matrix\.t.*:id^v", "true"],
    ["7", r".*\..*", "true"],
)
MORE = (
    "CREATE TABLE hashed (id VARCHAR(20), `part` INT, note VARCHAR(40), v INT, PRIMARY KEY (id, `part`)) "
    "CHARACTER SET utf8mb4",
    "INSERT INTO hashed VALUES ('a', 1, 'x', 1), ('\u00e9t\u00e9', 2, 'quote \" back \\\\ tab \\t', 2), "
    "('\u65e5\u672c', 3, '\U0001f600 \u0001', 3), ('', -4, NULL, NULL), ('polygenelubricants', 5, 'min', 5)",
    "UPDATE hashed SET note = 'same' WHERE `part` = 2",
    "UPDATE hashed SET id = 'moved' WHERE `part` = 1",
    "DELETE FROM hashed",
    "INSERT INTO hashed SELECT CONCAT('k', t.n), t.n, REPEAT('z', 10), t.n FROM "
    "(SELECT a.n + 10 * b.n AS n FROM (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) a, "
    "(SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) b) t",
)


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


def test_the_record_of_flat_messages(canal: int, mysql8: MySqlServer, tmp_path: Path) -> None:
    """What Canal's own classes write of its entries, with several rules of partitions."""
    found: list[Any] = []
    with connected(canal, destination="matrix") as client, mysql8.root() as link, link.cursor() as cursor:
        client.subscribe()
        _read(client, found, 4.0)
        for statement in (*statements("matrix"), *MORE):
            cursor.execute(statement)
            _read(client, found, 0.3)
        _read(client, found, 3.0)
    entries = [entry.SerializeToString() for entry in found if entry.entryType == 2]
    record = {
        "entries": [base64.b64encode(entry).decode() for entry in entries],
        "flat": [{"rules": list(rules), "messages": _flat(entries, rules, tmp_path)} for rules in ([], *RULES)],
    }
    if os.environ.get("RECORD"):
        FLAT_FIXTURE.write_text(json.dumps(record, ensure_ascii=False, indent=0) + "\n")
    recorded = json.loads(FLAT_FIXTURE.read_text())["flat"]
    assert [_timeless(one["messages"]) for one in record["flat"]] == [_timeless(one["messages"]) for one in recorded]


def _timeless(messages: list[Any]) -> list[Any]:
    """Without the time at which the statement ran."""
    return [[*head, {key: message[key] for key in message if key != "es"}] for *head, message in messages]


def _flat(entries: list[bytes], rules: list[str], place: Path) -> list[Any]:
    """[number of the entry, partition, message without `ts`] of each message."""
    lib = home()
    assert lib is not None
    classes = f"{lib}/lib/*"
    java = Path(__file__).with_name("Flat.java")
    subprocess.run(["javac", "-cp", classes, "-d", str(place), str(java)], check=True)
    sent = b"".join(len(entry).to_bytes(4, "big") + entry for entry in entries)
    command = ["java", "-cp", f"{classes}:{place}", "Flat", *rules]
    done = subprocess.run(command, input=sent, capture_output=True, check=True)
    messages = []
    for line in done.stdout.decode().splitlines():
        if line[:1].isdigit():
            number, partition, message = line.split(" ", 2)
            plain = json.loads(message)
            assert plain.pop("ts") > 0
            messages.append([int(number), int(partition), plain])
    return messages


def _read(client: CanalClient, found: list[Any], seconds: float) -> None:
    """What comes within that time, and the rest of an open transaction."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or (found and found[-1].entryType == 1):
        messages = client.get(1000, 100, 2)
        found += client.entries(messages)
        if messages.batch_id > 0:
            client.ack(messages.batch_id)

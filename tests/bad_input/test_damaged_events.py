"""Events that arrive other than the server wrote them: each stops its destination before it, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bad_input.conftest import MakeWorld
from tests.bad_input.proxy import Proxy, events_of
from tests.bad_input.world import World, until

pytestmark = pytest.mark.integration

TABLE_MAP, ROWS = 19, 30


def flip(at: int, bit: int = 1) -> Callable[[bytearray], None]:
    def change(event: bytearray) -> None:
        event[at] ^= bit

    return change


def renamed(event: bytearray) -> None:
    event[4] = 99


def shortened(event: bytearray) -> None:
    del event[-9:-4]


def shortened_soundly(event: bytearray) -> None:
    """As long as its header says, in the wrong place."""
    del event[-9:-4]
    event[9:13] = len(event).to_bytes(4, "little")
    event[13:17] = (int.from_bytes(event[13:17], "little") - 5).to_bytes(4, "little")


DAMAGES = [
    pytest.param(ROWS, flip(35), False, "an event whose checksum is wrong", "mysqlbinlog", id="flipped"),
    pytest.param(ROWS, flip(9), False, "an event whose length is wrong", "mysqlbinlog", id="flipped-length"),
    pytest.param(ROWS, shortened, False, "an event whose length is wrong", "mysqlbinlog", id="truncated"),
    pytest.param(ROWS, renamed, True, "unknown event type 99", "leave them out at the source", id="unknown-event"),
    pytest.param(ROWS, shortened_soundly, True, "rows of event WRITE_ROWS (30)", "mysqlbinlog", id="sound-truncated"),
    pytest.param(ROWS, flip(19, 64), True, "no TABLE_MAP", "transaction's start", id="sound-table-id"),
    pytest.param(TABLE_MAP, flip(27, 32), True, "", "mysqlbinlog", id="sound-table-map"),
]


@pytest.mark.parametrize(("kind", "change", "sealed", "message", "hint"), DAMAGES)
def test_a_damaged_event_stops_its_destination_before_it(
    proxied: World, proxy: Proxy, kind: int, change: Callable[[bytearray], None], sealed: bool, message: str, hint: str
) -> None:
    """Sealed means that no checksum tells: what an event says must fit together. Sound again, all rows come."""
    proxied.sql("INSERT INTO orders VALUES (1, 'before')")
    proxied.hold()
    cursor = proxied.cursor()
    proxy.damage = events_of(kind, change, sealed=sealed)
    journal, _ = proxied.mysql.position()
    proxied.sql("INSERT INTO orders VALUES (2, 'damaged')")

    error = proxied.told("DecodeError", message, f"{journal}:", hint)

    assert proxy.damaged
    end = proxied.mysql.position()[1]
    assert int(error["place"].split(" ")[0].rpartition(":")[2]) in range(end - 400, end)
    proxied.other_goes_on()
    assert proxied.cursor() == cursor
    proxy.damage = bytes
    proxied.healed()
    assert proxied.drain(rows=2) == [(1, "before"), (2, "damaged")]


def test_a_stream_cut_off_inside_an_event_is_read_again(proxied: World, proxy: Proxy) -> None:
    """Half an event and then nothing: told as a lost connection, tried again, and every row comes once."""
    proxied.sql("INSERT INTO orders VALUES (1, 'before')")
    proxied.hold()
    cursor = proxied.cursor()
    proxy.damage = lambda event: None if event[4] == ROWS else bytes(event)
    proxied.sql("INSERT INTO orders VALUES (2, 'cut')")

    proxied.told("SourceUnavailable", "the server closed the connection", f"127.0.0.1:{proxy.port}", "tried again")

    proxied.other_goes_on()
    assert proxied.cursor() == cursor
    proxy.damage = bytes
    proxied.healed()
    assert proxied.drain(rows=2) == [(1, "before"), (2, "cut")]


def test_a_journal_damaged_on_the_disk_of_the_server(make_world: MakeWorld) -> None:
    """A bit of a closed journal; when the file is whole again, so is the destination."""
    world = make_world({"canal.instance.master.address": "127.0.0.1:9"}, wait=False)
    journal, offset = world.mysql.position()
    world.sql("INSERT INTO orders VALUES (1, 'on the disk')")
    world.mysql.execute("FLUSH BINARY LOGS")
    with world.mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@datadir")
        file = Path(str(cursor.fetchone()[0])) / journal
    sound = file.read_bytes()
    at = sound.index(b"on the disk")
    file.write_bytes(sound[:at] + b"ON" + sound[at + 2 :])

    world.configure(address=f"{world.mysql.host}:{world.mysql.port}", journal=journal, position=offset)
    world.told("DecodeError", "checksum", f"{journal}:", "mysqlbinlog --verify-binlog-checksum")

    world.other_goes_on()
    assert str(offset).encode() in (world.cursor() or b"")
    file.write_bytes(sound)
    world.healed()
    assert world.drain() == [(1, "on the disk")]


def test_a_connection_refused_is_told_with_the_address(make_world: MakeWorld) -> None:
    """Nobody listens there; the right address heals it."""
    world = make_world({"canal.instance.master.address": "127.0.0.1:9"}, wait=False)

    world.told("SourceUnavailable", "cannot be reached", "127.0.0.1:9", "tried again")

    world.other_goes_on()
    assert world.cursor() is None
    world.configure(address=f"{world.mysql.host}:{world.mysql.port}")
    until(lambda: world.status()["state"] == "running", world.status)

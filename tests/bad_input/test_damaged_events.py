"""Events that arrive otherwise than the server wrote them stop their destination, or their table, before them. Nothing
is guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_core.errors import TableStopped
from tests.bad_input.proxy import DamagingProxy, events_of
from tests.bad_input.world import MakeWorld, World, until

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


DAMAGES = [
    pytest.param(ROWS, flip(35), False, "an event whose checksum is wrong", "mysqlbinlog", id="flipped"),
    pytest.param(ROWS, flip(9), False, "an event whose length is wrong", "mysqlbinlog", id="flipped-length"),
    pytest.param(ROWS, shortened, False, "an event whose length is wrong", "mysqlbinlog", id="truncated"),
    pytest.param(ROWS, renamed, True, "unknown event type 99", "leave them out at the source", id="unknown-event"),
    pytest.param(ROWS, flip(19, 64), True, "no TABLE_MAP", "transaction's start", id="sound-table-id"),
    pytest.param(TABLE_MAP, flip(27, 32), True, "", "mysqlbinlog", id="sound-table-map"),
]


@pytest.mark.in_turn(2)
@pytest.mark.parametrize(("kind", "change", "sealed", "message", "hint"), DAMAGES)
def test_a_damaged_event_stops_its_destination_before_it(
    proxied: World,
    proxy: DamagingProxy,
    kind: int,
    change: Callable[[bytearray], None],
    sealed: bool,
    message: str,
    hint: str,
) -> None:
    """With a sealed checksum only the contents reveal the damage. When the event is sound again, all rows come."""
    proxied.sql("INSERT INTO orders VALUES (1, 'before')")
    proxied.hold()
    cursor = proxied.cursor()
    proxy.damage = events_of(kind, change, sealed=sealed)
    journal, _ = proxied.mysql.position()
    proxied.sql("INSERT INTO orders VALUES (2, 'damaged')")

    error = proxied.reports("DecodeError", message, f"{journal}:", hint)

    assert proxy.damaged
    end = proxied.mysql.position()[1]
    assert int(error["place"].split(" ")[0].rpartition(":")[2]) in range(end - 400, end)
    proxied.other_goes_on()
    assert proxied.cursor() == cursor
    proxy.damage = bytes
    proxied.healed()
    assert proxied.drain(rows=2) == [(1, "before"), (2, "damaged")]


def test_rows_that_do_not_fit_their_definition_stop_their_table_alone(proxied: World, proxy: DamagingProxy) -> None:
    """Each reader of them gets the place and the bytes. The stream goes on: the rows before and after come."""
    proxied.sql("INSERT INTO orders VALUES (1, 'before')")
    proxied.hold()
    proxy.damage = events_of(ROWS, flip(-12), sealed=True)  # the length of the text
    journal, offset = proxied.mysql.position()
    proxied.sql("INSERT INTO orders VALUES (2, 'damaged')")
    until(lambda: proxy.damaged, proxied.status)
    proxy.damage = bytes
    proxied.sql("INSERT INTO orders VALUES (3, 'after')")

    assert proxied.drain() == [(1, "before")]
    connector, table = proxied.connector(), f"{proxied.databases['shop']}.orders"
    with connector.claim(1000, owner="a test", timeout_seconds=20) as claim:
        assert claim is not None
        with pytest.raises(TableStopped, match="do not fit the 2 columns") as caught:
            list(connector.changes(claim, table))

    assert int(caught.value.place.removeprefix(f"{journal}:")) in range(offset, offset + 400)
    assert b"damaged".hex() in caught.value.message
    assert proxied.drain() == [(3, "after")]
    assert (proxied.status()["state"], proxied.status()["error"]) == ("running", None)


def test_a_stream_cut_off_inside_an_event_is_read_again(proxied: World, proxy: DamagingProxy) -> None:
    """The stream ends inside an event: the service reports a lost connection, reconnects, and every row comes once."""
    proxied.sql("INSERT INTO orders VALUES (1, 'before')")
    proxied.hold()
    cursor = proxied.cursor()
    proxy.damage = lambda event: None if event[4] == ROWS else bytes(event)
    proxied.sql("INSERT INTO orders VALUES (2, 'cut')")

    proxied.reports("SourceUnavailable", "the server closed the connection", f"127.0.0.1:{proxy.port}", "tries again")

    proxied.other_goes_on()
    assert proxied.cursor() == cursor
    proxy.damage = bytes
    proxied.healed()
    assert proxied.drain(rows=2) == [(1, "before"), (2, "cut")]


def test_a_journal_damaged_on_the_disk_of_the_server(make_world: MakeWorld) -> None:
    """A flipped bit in a closed journal stops the destination until the file is whole again."""
    world = make_world({"canal.instance.master.address": "127.0.0.1:9"}, wait=False)
    journal, offset = world.mysql.position()
    world.sql("INSERT INTO orders VALUES (1, 'on the disk')")
    world.read("other")  # which is to see the journal as it was
    world.mysql.execute("FLUSH BINARY LOGS")
    with world.mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@datadir")
        file = Path(str(cursor.fetchone()[0])) / journal
    sound = file.read_bytes()
    at = sound.index(b"on the disk")
    file.write_bytes(sound[:at] + b"ON" + sound[at + 2 :])

    world.configure(address=f"{world.mysql.host}:{world.mysql.port}", journal=journal, position=offset)
    world.reports("DecodeError", "checksum", f"{journal}:", "mysqlbinlog --verify-binlog-checksum")

    world.other_goes_on()
    assert str(offset).encode() in (world.cursor() or b"")
    file.write_bytes(sound)
    world.healed()
    assert world.drain() == [(1, "on the disk")]


def test_a_refused_connection_names_the_address(make_world: MakeWorld) -> None:
    """Nobody listens at the address; the right one heals it."""
    world = make_world({"canal.instance.master.address": "127.0.0.1:9"}, wait=False)

    world.reports("SourceUnavailable", "cannot be reached", "127.0.0.1:9", "tries again")

    world.other_goes_on()
    assert world.cursor() is None
    world.configure(address=f"{world.mysql.host}:{world.mysql.port}")
    until(lambda: world.status()["state"] == "running", world.status)

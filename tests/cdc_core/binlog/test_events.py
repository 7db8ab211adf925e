"""Every type of event in the stream of a server: its effect on rows, transactions and positions."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from cdc_core.binlog.block import Block, Kind
from cdc_core.binlog.events import EventType, name_of
from cdc_core.errors import DecodeError
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.source.dump import Dump
from cdc_core.source.framing import Framer
from cdc_core.source.settings import SourceSettings
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.expand import Expander
from cdc_core.stream.group import part
from cdc_core.stream.group_scan import decisive_events, new_state
from cdc_core.stream.pipeline import Pipeline
from cdc_core.stream.settle import Settler
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_files import capture, image, packed, table_map_body
from tests.support.binlog_stream import event, opening, packets
from tests.support.captures import config, drain, running
from tests.support.mariadb_plugins import plugin_directory
from tests.support.servers import MySqlFactory

COLUMNS = [("id", 8, b"")]
IGNORABLE, ARTIFICIAL = 0x80, 0x20
NAME = "mysql-bin.000001"

Event = tuple[int, bytes, int]  # type, body, flags; a type below zero stands outside the journal


def query(text: str) -> Event:
    return 2, struct.pack("<IIBHH", 1, 0, 4, 0, 0) + b"shop\0" + text.encode(), 0


def rows(number: int, table: str = "t", table_id: int = 7, mapped: bool = True, last: bool = True) -> list[Event]:
    body = table_map_body(table, COLUMNS, [0])
    head = table_id.to_bytes(6, "little") + bytes([last, 0])
    described = [(19, table_id.to_bytes(6, "little") + b"\1\0" + body, 0)] if mapped else []
    return [*described, (30, head + b"\2\0" + b"\1\1" + image(COLUMNS, (number,)), 0)]


GTID: Event = (33, bytes(42), 0)
XID: Event = (16, bytes(8), 0)
ORDINARY = [GTID, query("BEGIN"), *rows(1), XID]


class Reading:
    """A destination's way up to the store, over a stream made by hand. `blocks` are what would be put."""

    def __init__(self, name: str = NAME, position: int = 4) -> None:
        self.registry = SchemaRegistry()
        self.blocks: list[Block] = []
        self.framer = Framer(name, position, checksum=True)
        self._pipeline = Pipeline(
            Expander(),
            Settler(lambda _: iter(()), lambda *_: pytest.fail("no XA here")),
            Annotator(self.registry, lambda schema, _: schema, lambda *_: True),
        )
        settings = SourceSettings("localhost", 3306, "u", "p")
        self._dump = Dump(settings, on_block=self._take, on_reset=lambda _: self._pipeline.reset())
        self._dump._journal = name

    def feed(self, stream: bytes) -> Reading:
        while stream:
            space = self.framer.space()
            count = min(len(space), len(stream))
            space[:count] = stream[:count]
            self.framer.received(count)
            stream = stream[count:]
        self._dump._hand_on(self.framer, flush=True)
        return self

    def connect(self, name: str = NAME, position: int = 4) -> Reading:
        """Once more, with a new framer."""
        self.framer = Framer(name, position, checksum=True)
        self._pipeline.reset()
        return self

    def _take(self, block: Block) -> None:
        self.blocks.extend(self._pipeline.push(block))

    @property
    def place(self) -> tuple[str, int]:
        return self.blocks[-1].journal_name, self.blocks[-1].end

    def kinds(self, *wanted: Kind) -> list[Kind]:
        found = [Kind(int(kind)) for block in self.blocks for kind in block.index["kind"]]
        return [kind for kind in found if not wanted or kind in wanted]

    def tables(self) -> list[str]:
        numbers = [int(row["schema"]) for block in self.blocks for row in block.index if row["kind"] == Kind.ROWS]
        return [self.registry.get(number).table for number in numbers]


def encoded(events: list[Event], start: int = 4) -> list[bytes]:
    out, at = [], start
    for kind, body, flags in events:
        one = event(abs(kind), body, at if kind > 0 else -1, flags=flags)
        at += len(one) if kind > 0 else 0
        out.append(one)
    return out


def reading(*events: Event, start: int = 4) -> Reading:
    return Reading().feed(packets(opening() + encoded(list(events), start)))


PREVIOUS = struct.pack("<Q", 0)
PASSING: list[Event] = [
    (EventType.STOP, b"", 0),
    (EventType.IGNORABLE, b"whatever", IGNORABLE),
    (99, b"whatever", IGNORABLE),
    (EventType.ROWS_QUERY, packed(b"INSERT INTO t VALUES (1)"), IGNORABLE),
    (EventType.PREVIOUS_GTIDS, PREVIOUS, 0),
    (-EventType.PREVIOUS_GTIDS, PREVIOUS, ARTIFICIAL),
    (EventType.TRANSACTION_CONTEXT, bytes(40), 0),
    (EventType.VIEW_CHANGE, b"1:2".ljust(40, b"\0") + bytes(12), 0),
    (EventType.MARIA_ANNOTATE_ROWS, b"INSERT INTO t VALUES (1)", 0),
    (EventType.MARIA_BINLOG_CHECKPOINT, struct.pack("<I", 16) + b"mysql-bin.000000", 0),
    (EventType.MARIA_GTID_LIST, struct.pack("<I", 0), 0),
    (-EventType.MARIA_GTID_LIST, struct.pack("<I", 0), ARTIFICIAL),
    (EventType.MARIA_START_ENCRYPTION, b"\1\1\0\0\0" + bytes(12), 0),
    (-EventType.MARIA_START_ENCRYPTION, b"\1\1\0\0\0" + bytes(12), ARTIFICIAL),
    (EventType.INTVAR, b"\2" + bytes(8), 0),
    (EventType.RAND, bytes(16), 0),
    (-EventType.HEARTBEAT, b"mysql-bin.000009", 0),
    (-EventType.HEARTBEAT_V2, b"\1\x10mysql-bin.000009\0", 0),
]


def named(one: Event) -> str:
    return f"{name_of(abs(one[0]))}{' made up' if one[0] < 0 else ''}"


@pytest.mark.parametrize("passing", PASSING, ids=named)
def test_what_passes_changes_nothing(passing: Event) -> None:
    """Ignorable events before, within and after a transaction leave rows and ends the same; only the position moves."""
    ordinary = reading(*ORDINARY)
    for at in range(len(ORDINARY) + 1):
        found = reading(*ORDINARY[:at], passing, *ORDINARY[at:], *ORDINARY)
        size = 19 + len(passing[1]) + 4 if passing[0] > 0 else 0
        assert found.kinds(Kind.BEGIN, Kind.ROWS, Kind.COMMIT) == 2 * ordinary.kinds(Kind.BEGIN, Kind.ROWS, Kind.COMMIT)
        assert found.place == (NAME, 2 * ordinary.place[1] - 4 + size)
        assert found.framer.heartbeats == int(abs(passing[0]) in (27, 41))


@pytest.mark.parametrize(
    ("refused", "message", "remedy"),
    [
        ((EventType.INCIDENT, b"\1\0\x04LOST", 0), "has a gap", "sluice copy"),
        ((99, b"", 0), "unknown event type 99", "source"),
        ((EventType.EXECUTE_LOAD_QUERY, bytes(26) + b"\0LOAD", 0), "statement-format", "binlog_format"),
    ],
)
def test_a_refusal_says_where_and_why(refused: Event, message: str, remedy: str) -> None:
    """The events before it are served; the place is the start of the event."""
    with pytest.raises(DecodeError, match=message) as caught:
        reading(*ORDINARY, refused, *ORDINARY)

    start = 4 + sum(map(len, encoded(ORDINARY)))
    assert caught.value.place == f"{NAME}:{start}"
    assert remedy in caught.value.hint


@pytest.mark.parametrize("code", [35, 163, 164, 27, 41], ids=name_of)
def test_artificial_events_do_not_move_the_position(code: int) -> None:
    """Artificial events, and those without a position, are in no journal."""
    found = reading(*ORDINARY, (-code, bytes(8), ARTIFICIAL))

    assert found.place == reading(*ORDINARY).place


def test_an_artificial_event_of_another_type_is_refused() -> None:
    """An artificial event of an unexpected type is refused."""
    with pytest.raises(DecodeError, match="without a place in the journal"):
        reading((-30, bytes(30), ARTIFICIAL))


def test_ciphertext_is_refused() -> None:
    """Bytes that the server did not decrypt are no event."""
    whole = encoded([(EventType.MARIA_START_ENCRYPTION, b"\1\1\0\0\0" + bytes(12), 0), *ORDINARY])
    whole[2] = bytes(byte ^ 0x5A for byte in whole[2][:9]) + whole[2][9:13] + bytes(b ^ 0x5A for b in whole[2][13:])

    with pytest.raises(DecodeError, match="checksum is wrong"):
        Reading().feed(packets([*opening(), *whole]))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ALTER TABLE t DROP COLUMN is_commit", Kind.DDL),
        ("CREATE TABLE begin (begin INT)", Kind.DDL),
        ("commit work", Kind.COMMIT),
    ],
)
def test_transaction_bounds_match_exactly(text: str, kind: Kind) -> None:
    """A statement that ends in COMMIT or BEGIN stands alone and closes no transaction that it did not open."""
    found = reading(GTID, query(text), *ORDINARY)

    assert found.kinds() == [Kind.OTHER, kind, Kind.OTHER, Kind.BEGIN, Kind.OTHER, Kind.ROWS, Kind.COMMIT]


def rotate(name: str, at: int) -> bytes:
    return event(4, struct.pack("<Q", 4) + name.encode(), at)


@pytest.mark.parametrize("base", ["mysql-bin", "db.example.org-bin", "a.b.000001"])
def test_journals_beyond_999999(base: str) -> None:
    """Journals are ordered by number, whatever their base name contains."""
    first, second = f"{base}.999999", f"{base}.1000000"
    events = encoded(ORDINARY)
    stream = packets([*opening(first), *events, rotate(second, 4 + sum(map(len, events))), *opening(second), *events])

    found = Reading(first).feed(stream)

    assert [block.journal_name for block in found.blocks] == [first, second]
    assert found.place == (second, 4 + sum(map(len, events)))
    assert found.tables() == ["t", "t"]


def test_offsets_beyond_4_gib() -> None:
    """Headers hold 32 bits of an offset; rows and ends have all bits."""
    start = (1 << 32) - 150
    found = Reading(position=start).feed(packets([opening()[1], *encoded(ORDINARY * 3, start)]))

    assert found.place == (NAME, start + 3 * sum(map(len, encoded(ORDINARY))))
    assert found.place[1] > 1 << 32
    ends = [int(end) for block in found.blocks for end in block.index["end"]]
    assert ends == sorted(set(ends))


def test_table_ids_end_with_their_file() -> None:
    """A crashed server leaves a statement without its end; table ids start again in the next file."""
    cut_off = encoded([GTID, query("BEGIN"), *rows(1, last=False)])
    second = "mysql-bin.000002"
    end = 4 + sum(map(len, cut_off))
    stray = encoded([GTID, query("BEGIN"), *rows(2, mapped=False), XID])
    stream = packets([*opening(), *cut_off, rotate(second, end), *opening(second), *stray])

    with pytest.raises(DecodeError, match="names a table that no TABLE_MAP") as caught:
        Reading().feed(stream)

    assert caught.value.place.startswith(second)


def test_table_ids_end_with_their_connection() -> None:
    """Another server may reach the same position, where the id means another table."""
    cut_off = packets([*opening(), *encoded([GTID, query("BEGIN"), *rows(1, last=False)])])
    found = Reading().feed(cut_off).connect()

    with pytest.raises(DecodeError, match="names a table that no TABLE_MAP"):
        found.feed(packets([*opening(), *encoded([GTID, query("BEGIN"), *rows(2, mapped=False), XID])]))


def test_a_table_id_used_again_is_the_latest_table() -> None:
    """The latest TABLE_MAP counts: in the transaction, in the next one, and in the next file."""
    events = encoded([GTID, query("BEGIN"), *rows(1), *rows(2, "u"), XID, GTID, query("BEGIN"), *rows(3, "v"), XID])
    second = "mysql-bin.000002"
    other = encoded([GTID, query("BEGIN"), *rows(4, "w"), XID])
    end = 4 + sum(map(len, events))
    stream = packets([*opening(), *events, rotate(second, end), *opening(second), *other])

    assert Reading().feed(stream).tables() == ["t", "u", "v", "w"]


# -- what real servers write


@pytest.mark.integration
def test_an_encrypted_binlog_comes_decrypted(new_mysql: MySqlFactory, tmp_path: Path) -> None:
    """With encrypt_binlog MariaDB sends START_ENCRYPTION at the head of each file, and plain events after it."""
    keys = tmp_path / "keys"
    keys.write_text("1;" + "0123456789abcdef" * 4 + "\n")
    server = new_mysql(
        "mariadb",
        plugin_dir=str(plugin_directory(tmp_path)),
        plugin_load_add="file_key_management",
        file_key_management_filename=str(keys),
        encrypt_binlog=True,
    )
    with server.database() as database:
        journal, position = server.position()
        server.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 7)", database=database)
        server.execute("FLUSH BINARY LOGS", "INSERT INTO t VALUES (2, 8)", database=database)
        for start in ({"journal_name": journal, "position": 4}, {"journal_name": journal, "position": position}):
            with running(config(server, database, **start), MemoryNodes()) as capture:
                assert drain(capture, 2) == 2
                assert capture.status().error is None


@pytest.mark.integration
def test_tagged_gtids_flag_doubt(mysql9: MySqlServer) -> None:
    """The flag of a possible mix of engines is set by statements and XA, not by ordinary transactions."""
    with mysql9.database() as name:
        mysql9.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
        block = capture(
            mysql9,
            "SET SESSION gtid_next = 'AUTOMATIC:shop'",
            f"INSERT INTO {name}.t VALUES (1)",
            f"CREATE TABLE {name}.u (id INT)",
            "XA START 'x'",
            f"INSERT INTO {name}.t VALUES (2)",
            "XA END 'x'",
            "XA PREPARE 'x'",
        )
        mysql9.execute("XA ROLLBACK 'x'")
    assert list(block.index["type"]).count(EventType.GTID_TAGGED) == 3
    state, doubts = new_state(), []
    for row in range(len(block.index)):
        decisive_events(part(block, row, row + 1), state)
        if block.index["type"][row] == EventType.TABLE_MAP:
            doubts.append(int(state[0]["doubt"]))
    assert doubts == [0, 1]

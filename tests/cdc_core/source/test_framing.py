"""Framing: whole events in order, however the bytes arrive; damage is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.binlog.checksum import crc32
from cdc_core.errors import DecodeError, PositionError, SourceError, SourceUnavailable
from cdc_core.source.framing import Framer
from tests.support.binlog_stream import FORMAT, ROTATE, ROWS, XID, event, feed, opening, packets, transactions, whole

JOURNAL = "mysql-bin.000001"
EVENTS = opening() + transactions(4, 300) + transactions(1, 5000, start=4 + sum(map(len, transactions(4, 300))))
STREAM = packets(EVENTS)


def framer(**options: int) -> Framer:
    return Framer(JOURNAL, 4, checksum=True, **options)


@settings(deadline=None)
@given(st.binary(max_size=1000), st.integers(0, 40))
def test_checksum_is_zlibs(data: bytes, start: int) -> None:
    """The compiled checksum is CRC32 at any length and alignment."""
    start = min(start, len(data))
    assert crc32(np.frombuffer(data, np.uint8), start, len(data)) == zlib.crc32(data[start:])


def test_checksum_needs_no_special_processor() -> None:
    """Without carry-less multiplication tables give the same."""
    program = """
import zlib, numpy as np
from cdc_core.binlog.checksum import crc32
from cdc_core.compiled import carryless
assert not carryless.AVAILABLE
data = bytes(range(256)) * 3
assert all(crc32(np.frombuffer(data, np.uint8), 3, stop) == zlib.crc32(data[3:stop]) for stop in range(3, 768))
"""
    environment = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": ""}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_events_come_out_as_they_went_in() -> None:
    """Bytes without checksum, end offsets, types and block starts are those of the journal."""
    blocks = feed(framer(block_bytes=1000), STREAM)
    inside = EVENTS[2:]
    ends = np.cumsum([4] + [len(one) for one in inside])
    assert whole(blocks) == [(JOURNAL, int(end), one[:-4]) for end, one in zip(ends[1:], inside, strict=True)]
    assert [block.start for block in blocks] == [4] + [block.end for block in blocks[:-1]]
    assert [int(kind) for kind in blocks[0].index["type"][:3]] == [33, 2, 19]
    assert all(block.data.nbytes <= 1000 or len(block.index) == 1 for block in blocks)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 700), min_size=1, max_size=8),
    st.integers(24, 6000),
    st.integers(19, 6000),
)
def test_any_chunking_gives_the_same_blocks(sizes: list[int], receive_buffer: int, block_bytes: int) -> None:
    """Blocks depend on the bytes only, whatever the chunks; events depend on them whatever the buffers."""
    options = {"receive_buffer": receive_buffer, "block_bytes": block_bytes}
    at_once, in_parts = feed(framer(**options), STREAM), feed(framer(**options), STREAM, sizes)
    assert [block.end for block in in_parts] == [block.end for block in at_once]
    assert whole(in_parts) == whole(at_once) == whole(feed(framer(), STREAM))


@settings(deadline=None)
@given(st.integers(0, len(EVENTS) - 1), st.data())
def test_a_flipped_bit_is_noticed(number: int, data: st.DataObject) -> None:
    """Any bit of any event, control events included. Earlier events are whole."""
    damaged = bytearray(EVENTS[number])
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    stream = packets([*EVENTS[:number], bytes(damaged), *EVENTS[number + 1 :]])
    with pytest.raises(DecodeError) as caught:
        feed(framer(), stream)
    assert caught.value.place.startswith("mysql-bin.")
    assert caught.value.hint


@settings(deadline=None)
@given(st.integers(0, len(STREAM)), st.sampled_from([64, 1000, 1 << 20]))
def test_a_truncated_stream_gives_whole_events_only(length: int, receive_buffer: int) -> None:
    """A part of the stream gives a beginning of what the whole gives."""
    events, part = whole(feed(framer(), STREAM)), whole(feed(framer(receive_buffer=receive_buffer), STREAM[:length]))
    assert part == events[: len(part)]
    assert len(STREAM[:length]) < len(STREAM) or len(part) == len(events)


@pytest.mark.parametrize("size", [0xFFFFFF - 24, 0xFFFFFF - 23, 2 * 0xFFFFFF - 24, 40_000_000])
def test_an_event_of_several_packets_is_put_together(size: int) -> None:
    """Even one that fills its last packet, which an empty packet follows."""
    big = event(ROWS, bytes(size), 4)
    last = event(XID, bytes(8), 4 + len(big))
    blocks = feed(framer(), packets([*opening(), big, last]), [1 << 18])
    assert [len(block.index) for block in blocks] == [1, 1]
    assert blocks[0].data.tobytes() == big[:-4]
    assert (blocks[0].end, blocks[1].end) == (4 + len(big), 4 + len(big) + len(last))


def test_a_block_never_spans_journals() -> None:
    """A ROTATE ends its block; the artificial ROTATE after it changes nothing."""
    first = transactions(1, 50)
    end = 4 + sum(map(len, first))
    turn = event(ROTATE, (4).to_bytes(8, "little") + b"mysql-bin.000002", end)
    description = opening()[1][19:-4]
    there = event(FORMAT, description, 4)
    second = transactions(1, 50, start=4 + len(there))
    stream = packets([*opening(), *first, turn, opening("mysql-bin.000002")[0], there, *second])
    blocks = feed(framer(), stream)
    assert [(block.journal_name, block.start) for block in blocks] == [
        (JOURNAL, 4),
        ("mysql-bin.000002", 4 + len(there)),
    ]


def test_positions_go_on_beyond_4_gib() -> None:
    """The header has 32 bits of the position, the index all."""
    start = (1 << 32) - 100
    events = transactions(2, 50, start=start)
    reader = Framer(JOURNAL, start, checksum=True)
    description = [opening()[1]]
    assert whole(feed(reader, packets(description + events)))[-1][1] == start + sum(map(len, events)) > 1 << 32


def test_events_up_to_since_are_read_over() -> None:
    """They are checked, and the first block starts at their end."""
    events = transactions(3, 50)
    since = 4 + sum(map(len, events[:5]))
    blocks = feed(framer(since=since), packets(opening() + events))
    assert blocks[0].start == since
    assert len(blocks[0].index) == 10


def test_a_gap_is_noticed() -> None:
    """An event that does not follow the previous one is refused."""
    events = transactions(2, 50)
    with pytest.raises(DecodeError, match="does not follow"):
        feed(framer(), packets(opening() + events[:3] + events[4:]))


def test_a_lost_packet_is_noticed() -> None:
    """Packets have sequence numbers."""
    with pytest.raises(DecodeError, match="out of order"):
        feed(framer(), packets(opening()) + packets(transactions(1, 50), sequence=9))


def test_an_event_outside_the_journal_is_refused() -> None:
    """Rows without a position would be lost at the next start."""
    with pytest.raises(DecodeError, match="without a place"):
        feed(framer(), packets([*opening(), event(ROWS, bytes(40), -1)]))


def test_heartbeats_move_nothing() -> None:
    """They are counted and checked."""
    reader = framer()
    beat = event(27, JOURNAL.encode(), 900)
    assert feed(reader, packets([*opening(), beat, beat])) == []
    assert (reader.heartbeats, reader.position) == (2, 4)


def test_without_checksums() -> None:
    """With binlog_checksum NONE events end where their length says."""
    description = opening()[1][19:-4][:-1] + b"\0" + bytes(4)
    plain = [
        bare(ROTATE, (4).to_bytes(8, "little") + JOURNAL.encode(), 0, 0x20),
        bare(FORMAT, description, 0, 0),
        bare(XID, bytes(8), 31, 0),
    ]
    blocks = feed(Framer(JOURNAL, 4, checksum=False), packets(plain))
    assert whole(blocks) == [(JOURNAL, 31, plain[2])]


def bare(kind: int, body: bytes, end: int, flags: int) -> bytes:
    numbers = (0, 4), (kind, 1), (1, 4), (19 + len(body), 4), (end, 4), (flags, 2)
    return b"".join(value.to_bytes(width, "little") for value, width in numbers) + body


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (1236, "Could not find first log file name in binary log index file", PositionError),
        (1236, "Client requested master to start replication from impossible position", PositionError),
        (1236, "A slave with the same server_uuid/server_id as this slave has connected", SourceError),
        (1236, "log event entry exceeded max_allowed_packet", SourceError),
        (1236, "event read from binlog did not pass crc check", DecodeError),
        (1053, "Server shutdown in progress", SourceUnavailable),
        (1227, "Access denied; you need the REPLICATION SLAVE privilege", SourceError),
    ],
)
def test_the_servers_error_ends_the_stream(code: int, text: str, kind: type[Exception]) -> None:
    """It comes after earlier events, with the text of the server and a remedy."""
    events = opening() + transactions(1, 50)
    payload = b"\xff" + code.to_bytes(2, "little") + b"#HY000" + text.encode()
    reader, blocks = framer(), []
    stream = packets(events) + len(payload).to_bytes(3, "little") + bytes([len(events) + 1]) + payload
    reader.space()[: len(stream)] = stream
    reader.received(len(stream))
    with pytest.raises(kind, match=text[:20]) as caught:
        blocks.extend(reader.blocks())
    assert type(caught.value) is kind
    assert [len(block.index) for block in blocks] == [5]


def test_an_error_packet_that_no_buffer_holds_is_refused() -> None:
    """The framer would otherwise wait for ever."""
    with pytest.raises(DecodeError, match="not an event"):
        feed(framer(receive_buffer=4096), packets(opening()) + b"\x00\x10\x00\x03\xff" + bytes(4091))


@pytest.mark.parametrize(
    ("position", "name"), [(1 << 63, "mysql-bin.000002"), (4, "mysql-bin"), (4, "mysql-bin.99999999999999999999")]
)
def test_a_rotate_to_nowhere_is_refused(position: int, name: str) -> None:
    """No journal has such an offset or such a name."""
    turn = event(ROTATE, position.to_bytes(8, "little") + name.encode(), 4)
    with pytest.raises(DecodeError, match="names no place"):
        feed(framer(), packets([*opening(), turn]))


def test_buffers_do_not_stay_large() -> None:
    """After an event larger than the buffer it has its old size again."""
    reader = framer(receive_buffer=4096)
    big = event(ROWS, bytes(1_000_000), 4)
    feed(reader, packets([*opening(), big]), [5000])
    assert len(reader.space()) == 4096
    assert repr(reader) == f"<Framer {JOURNAL}:{4 + len(big)} rows=0 waiting=0>"

"""GTIDs gathered from events: against one at a time, and torn ones."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from cdc_core.binlog.gtid_columns import Executed, advanced
from cdc_core.binlog.gtids import last_gtid
from cdc_core.errors import DecodeError
from cdc_core.gtid import GtidPosition, GtidSet, is_set
from cdc_core.source.block import Kind
from tests.binlog_files import Log

ONE, TWO = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "08cf1dcf-e5a7-11f1-a022-02fc00000001"


def packed(number: int) -> bytes:
    """A number as the server packs it."""
    more = next(n for n in range(9) if n == 8 or number < 1 << 7 * (n + 1))
    return (number << min(more + 1, 8) | (1 << more) - 1).to_bytes(more + 1, "little")


def event(gtid: str) -> tuple[int, bytes]:
    server, *tag, number = gtid.split(":")
    source = uuid.UUID(server).bytes
    if not tag:
        return 33, b"\1" + source + int(number).to_bytes(8, "little") + bytes(17)
    fields = b"\0\2\2" + b"".join(map(packed, source)) + b"\4" + packed(int(number) << 1)
    fields += b"\6" + packed(len(tag[0])) + tag[0].encode()
    return 42, packed(1) + packed(100) + packed(7) + fields


def log_of(*gtids: str) -> Log:
    log = Log()
    for gtid in gtids:
        log.add(*event(gtid))
        log.query("BEGIN")
        log.add(16, bytes(8))
    return log


def test_many_of_several_servers_and_tags() -> None:
    """Intervals, gaps, both kinds of event; what was there before stays."""
    numbers = [*range(1, 300), 301, 70_000, 1 << 40]
    gtids = [f"{ONE}:{n}" for n in numbers] + [f"{TWO}:the_tag:{n}" for n in numbers] + [f"{TWO}:b:7"]
    order = np.random.default_rng(1).permutation(len(gtids))
    block = log_of(*(gtids[at] for at in order)).block()
    found = advanced(GtidSet.parse(f"{ONE}:300"), block.data, block.index)
    assert str(found) == f"{TWO}:b:7:the_tag:1-299:301:70000:{1 << 40},{ONE}:1-301:70000:{1 << 40}"


def test_as_one_at_a_time() -> None:
    """The other reader of the same events agrees."""
    for gtid in (f"{ONE}:1", f"{ONE}:{(1 << 62) - 1}", f"{TWO}:t:{(1 << 61) - 1}", f"{TWO}:{'a' * 32}:128"):
        block = log_of(gtid).block()
        assert last_gtid(block.data, block.index) == gtid
        assert str(advanced(GtidSet(), block.data, block.index)) == gtid


def test_mariadb() -> None:
    """In each domain the last."""
    log = Log()
    for domain, number in ((0, 5), (1, 9), (0, 6), (7, 1)):
        log.add(162, number.to_bytes(8, "little") + domain.to_bytes(4, "little") + b"\0")
    block = log.block()
    found = advanced(GtidPosition.parse("3-1-4,0-1-2"), block.data, block.index)
    assert [(domain, number) for domain, _, number in found.parts] == [(0, 6), (1, 9), (3, 4), (7, 1)]
    assert last_gtid(block.data, block.index) in str(found)  # type: ignore[operator]


def test_without_any() -> None:
    """Nothing is added."""
    log = Log()
    log.query("BEGIN")
    block = log.block()
    for gtids in (GtidSet.parse(f"{ONE}:1"), GtidPosition.parse("0-1-1")):
        assert advanced(gtids, block.data, block.index) == gtids


@pytest.mark.parametrize(
    ("kind", "body"), [(33, bytes(24)), (33, bytes(25)), (42, b"\2\4\0"), (42, b"\2\4\0\4\xff"), (42, b"")]
)
def test_a_torn_gtid(kind: int, body: bytes) -> None:
    """Is not taken for another."""
    log = Log()
    log.add(kind, body)
    block = log.block()
    with pytest.raises(DecodeError, match="GTID"):
        advanced(GtidSet(), block.data, block.index)


def test_a_torn_gtid_of_mariadb() -> None:
    """Neither."""
    log = Log()
    log.add(162, bytes(11))
    block = log.block()
    with pytest.raises(DecodeError, match="GTID"):
        advanced(GtidPosition(), block.data, block.index)


def test_only_what_ended_is_executed() -> None:
    """A transaction that goes on into the next block counts when it ends; after a reset it comes again."""
    executed = Executed(GtidSet())
    block = log_of(f"{ONE}:1", f"{ONE}:2").block()
    block.index["kind"][[2, 5]] = Kind.COMMIT
    head, tail = block.index[:4], block.index[4:]
    for index, expected in ((head, f"{ONE}:1"), (tail, f"{ONE}:1-2")):
        executed.advance(type(block)(block.journal_name, block.start, block.data, index))
        assert str(executed.committed) == expected
    executed = Executed(GtidSet())
    executed.advance(type(block)(block.journal_name, block.start, block.data, head))
    executed.reset()
    executed.advance(type(block)(block.journal_name, block.start, block.data, tail))
    assert str(executed.committed) == f"{ONE}:1"


def test_a_set_is_told_from_one_transaction() -> None:
    """As cursors kept without GTID mode have it."""
    assert is_set(f"{ONE}:1-5")
    assert is_set(f"{ONE}:1")
    assert is_set(f"{ONE}:7-9")
    assert is_set("0-1-7")
    assert not is_set(f"{ONE}:7")
    assert not is_set(f"{ONE}:tag:7")
    assert not is_set("")

"""GTIDs gathered from events: against one at a time, and torn ones."""

from __future__ import annotations

import numpy as np
import pytest

from cdc_core.binlog.gtid_events import add_gtids, last_gtid
from cdc_core.errors import DecodeError
from cdc_core.gtid import GtidPosition, GtidSet
from tests.support.binlog_files import Log, whole
from tests.support.gtid_events import ONE, TWO, log_of


def test_many_of_several_servers_and_tags() -> None:
    """Intervals, gaps, both kinds of event; what was there before stays."""
    numbers = [*range(1, 300), 301, 70_000, 1 << 40]
    gtids = [f"{ONE}:{n}" for n in numbers] + [f"{TWO}:the_tag:{n}" for n in numbers] + [f"{TWO}:b:7"]
    order = np.random.default_rng(1).permutation(len(gtids))
    block = log_of(*(gtids[at] for at in order)).block()
    found = add_gtids(GtidSet.parse(f"{ONE}:300"), whole(block))
    assert str(found) == f"{TWO}:b:7:the_tag:1-299:301:70000:{1 << 40},{ONE}:1-301:70000:{1 << 40}"


def test_as_one_at_a_time() -> None:
    """The other reader of the same events agrees."""
    for gtid in (f"{ONE}:1", f"{ONE}:{(1 << 62) - 1}", f"{TWO}:t:{(1 << 61) - 1}", f"{TWO}:{'a' * 32}:128"):
        block = log_of(gtid).block()
        assert str(last_gtid(whole(block))) == gtid
        assert str(add_gtids(GtidSet(), whole(block))) == gtid


def test_mariadb() -> None:
    """In each domain the last."""
    log = Log()
    for domain, number in ((0, 5), (1, 9), (0, 6), (7, 1)):
        log.add(162, number.to_bytes(8, "little") + domain.to_bytes(4, "little") + b"\0")
    block = log.block()
    found = add_gtids(GtidPosition.parse("3-1-4,0-1-2"), whole(block))
    assert [(domain, number) for domain, _, number in found.parts] == [(0, 6), (1, 9), (3, 4), (7, 1)]
    assert str(last_gtid(whole(block))) in str(found)


def test_without_any() -> None:
    """Nothing is added."""
    log = Log()
    log.query("BEGIN")
    block = log.block()
    for gtids in (GtidSet.parse(f"{ONE}:1"), GtidPosition.parse("0-1-1")):
        assert add_gtids(gtids, whole(block)) == gtids


@pytest.mark.parametrize(
    ("kind", "body"), [(33, bytes(24)), (33, bytes(25)), (42, b"\2\4\0"), (42, b"\2\4\0\4\xff"), (42, b"")]
)
def test_a_torn_gtid(kind: int, body: bytes) -> None:
    """Is not taken for another."""
    log = Log()
    log.add(kind, body)
    block = log.block()
    with pytest.raises(DecodeError, match="GTID"):
        add_gtids(GtidSet(), whole(block))


def test_a_torn_gtid_of_mariadb() -> None:
    """Neither."""
    log = Log()
    log.add(162, bytes(11))
    block = log.block()
    with pytest.raises(DecodeError, match="GTID"):
        add_gtids(GtidPosition(), whole(block))

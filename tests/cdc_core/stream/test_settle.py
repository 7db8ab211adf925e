"""Groups in doubt: rows rolled back, and XA transactions in two phases, however the journal is read."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.binlog.block import Block, Kind
from cdc_core.binlog.xid import named_in, prepared_in
from cdc_core.errors import DecodeError
from cdc_core.position import EntryPosition
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.stream import prepared_groups, settle, splice
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.group import Group, part, rolled_back
from cdc_core.stream.history import History
from cdc_core.stream.settle import Settler
from cdc_core.stream.trim import trim
from tests.support.binlog_files import Log, image, table_map_body

COLUMNS = [("id", 8, b""), ("v", 15, b"\x14\x00")]
BODY = table_map_body("t", COLUMNS, [0])
XID_A, XID_B = "X'61',X'',1", "X'62',X'00ff',7"
JOURNAL, OLDER = "mysql-bin.1000000", "mysql-bin.999999"

Row = tuple[int, int, int]  # id, end, row_base


def gtid(log: Log, flags: int = 0) -> None:
    log.add(33, bytes([flags]) + bytes(41))


def maria_gtid(log: Log, flags: int) -> None:
    log.add(162, bytes(12) + bytes([flags]))


def insert(log: Log, *ids: int) -> None:
    log.table_map(7, BODY)
    for number in ids:
        log.rows(30, 7, 2, image(COLUMNS, (number, "x" * 20)), flags=int(number == ids[-1]))


def prepare(log: Log, name: str, one_phase: bool = False) -> None:
    gtrid, bqual, number = name.split(",")
    first, second = bytes.fromhex(gtrid[2:-1]), bytes.fromhex(bqual[2:-1])
    log.query(f"XA END {name}")
    head = bytes([one_phase]) + b"".join(n.to_bytes(4, "little") for n in (int(number), len(first), len(second)))
    log.add(38, head + first + second)


def xa(log: Log, name: str, *ids: int, one_phase: bool = False) -> None:
    gtid(log)
    log.query(f"XA START {name}")
    insert(log, *ids)
    prepare(log, name, one_phase)


def statement(log: Log, text: str) -> None:
    gtid(log, 1)
    log.query(text)


def plain(log: Log, *ids: int, end: Callable[[Log], None] = lambda log: log.add(16, bytes(8)), flags: int = 0) -> None:
    gtid(log, flags)
    log.query("BEGIN")
    insert(log, *ids)
    end(log)


class Source:
    """Journals by name, read in blocks of `size` events. `read` are the places that were read again."""

    def __init__(self, size: int = 1000, **logs: Log) -> None:
        self.blocks = {f"mysql-bin.{name[1:]}": log.block(f"mysql-bin.{name[1:]}") for name, log in logs.items()}
        self.size = size
        self.again: list[str] = []

    def history(self) -> History:
        return History(lambda: list(self.blocks), self._read)

    def _read(self, start: EntryPosition, end: int | None) -> Iterator[Block]:
        self.again.append(str(start))
        return self.read(start.journal_name, start.position, end)

    def read(self, journal: str, start: int = 4, end: int | None = None) -> Iterator[Block]:
        whole = self.blocks[journal]
        ends = whole.index["end"]
        low = int(np.searchsorted(ends, start, side="right"))
        high = len(ends) if end is None else int(np.searchsorted(ends, end, side="right"))
        for at in range(low, high, self.size):
            yield part(whole, at, min(at + self.size, high))


def annotated(source: Source, journal: str = JOURNAL, start: int = 4, by: Settler | None = None) -> list[Block]:
    history = source.history()
    settler = by or Settler(history.reread, history.find_prepared)
    settler.reset()
    annotator = Annotator(SchemaRegistry(), lambda schema, _: schema, lambda *_: True)
    blocks = []
    for read in source.read(journal, start):
        for piece in settler.push(read):
            annotator.annotate(piece)
            blocks.append(piece)
    assert repr(settler).startswith("<Settler held=")
    return blocks


def rows(blocks: list[Block]) -> list[Row]:
    """What counts, and that positions rise and leave no gap between blocks."""
    found, last = [], (0, 0)
    for before, after in itertools.pairwise(blocks):
        assert after.start == before.end
    for block in blocks:
        for event in block.index:
            if event["kind"] == Kind.ROWS:
                at = int(event["offset"]) + 19 + 6 + 2 + 2 + 1 + 1 + 1
                order = int(event["end"]), int(event["row_base"])
                assert order > last
                last = order
                found.append((int.from_bytes(block.data[at : at + 8].tobytes(), "little"), *order))
    return found


def ids(blocks: list[Block]) -> list[int]:
    return [number for number, _, _ in rows(blocks)]


def ends(blocks: list[Block]) -> int:
    return sum(int(np.count_nonzero(block.index["kind"] == Kind.COMMIT)) for block in blocks)


@pytest.fixture(params=[(1, 1 << 22, 1 << 24), (2, 1 << 22, 0), (3, 150, 1 << 24), (7, 150, 0), (1000, 1 << 22, 0)])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Events a block; with small and large bounds on what is held."""
    events, hold, cache = request.param
    monkeypatch.setattr(settle, "HOLD", hold)
    monkeypatch.setattr(prepared_groups.PreparedGroups.__init__, "__defaults__", (cache,))
    monkeypatch.setattr(splice, "STEP", 64)
    return int(events)


def test_rows_wait_for_xa_commit(size: int) -> None:
    """They come at XA COMMIT, after what was committed in between; rolled-back rows never come."""
    log = Log()
    xa(log, XID_A, 1, 2, 3)
    plain(log, 4)
    xa(log, XID_B, 5)
    statement(log, f"XA ROLLBACK {XID_B}")
    plain(log, 6)
    before = log.end
    statement(log, f"XA COMMIT {XID_A}")
    plain(log, 7)

    found = annotated(Source(size, n1000000=log))

    assert ids(found) == [4, 6, 1, 2, 3, 7]
    assert ends(found) == 7
    inside = [end for number, end, _ in rows(found) if number < 4]
    assert all(before < end for end in inside)
    assert inside == sorted(set(inside))


def test_reading_from_elsewhere_gives_the_same_positions(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start after XA PREPARE finds it, in this file or an older one."""
    older, log = Log(), Log()
    xa(older, XID_B, 8, 9)
    xa(older, XID_A, 90)
    statement(older, f"XA COMMIT {XID_A}")
    xa(log, XID_A, 1, 2, 3)
    start = log.end
    plain(log, 4)
    statement(log, f"XA COMMIT {XID_B}")
    statement(log, f"XA COMMIT {XID_A}")
    source = Source(size, n999999=older, n1000000=log)

    found = annotated(source, start=start)

    assert ids(found) == [4, 8, 9, 1, 2, 3]
    assert f"{OLDER}:4" in source.again
    monkeypatch.setattr(settle, "HOLD", 1 << 22)
    monkeypatch.setattr(prepared_groups.PreparedGroups.__init__, "__defaults__", (1 << 24,))
    assert rows(annotated(Source(1000, n999999=older, n1000000=log))) == rows(found)


def test_a_reading_that_was_interrupted_goes_on(size: int) -> None:
    """At any block: only what was put before is left out, although blocks are cut elsewhere."""
    log = Log()
    xa(log, XID_A, 1, 2, 3)
    plain(log, 4, 5)
    plain(log, 6, end=rollback, flags=1)
    statement(log, f"XA COMMIT {XID_A}")
    xa(log, XID_B, 7, 8, 9, one_phase=True)
    plain(log, 10)
    pieces = annotated(Source(size, n1000000=log))
    for put in range(1, len(pieces)):
        last = pieces[put - 1].end
        commits = [int(event["end"]) for one in pieces[:put] for event in one.index if event["kind"] == Kind.COMMIT]
        for other in (1, 2, 5, 1000):
            again = annotated(Source(other, n1000000=log), start=max(commits, default=4))
            fresh = [rest for rest in (trim(piece, last) for piece in again) if rest is not None]
            assert rows([*pieces[:put], *fresh]) == rows(pieces)


def test_one_phase_needs_no_reading_again_when_small() -> None:
    """XA COMMIT ... ONE PHASE is an ordinary end."""
    log = Log()
    xa(log, XID_A, 1, 2, one_phase=True)
    source = Source(2, n1000000=log)

    assert ids(annotated(source)) == [1, 2]
    assert source.again == []


def test_one_phase_of_any_size(size: int) -> None:
    """The rows keep their own positions."""
    log = Log()
    xa(log, XID_A, *range(1, 30), one_phase=True)
    plain(log, 40)

    assert ids(annotated(Source(size, n1000000=log))) == [*range(1, 30), 40]


def test_what_was_prepared_survives_a_reconnect() -> None:
    """A reset forgets only the open group."""
    log = Log()
    xa(log, XID_A, 1)
    start = log.end
    statement(log, f"XA COMMIT {XID_A}")
    source = Source(n1000000=log)
    settler = Settler(source.history().reread, source.history().find_prepared)

    list(settler.push(part(source.blocks[JOURNAL], 0, 6)))
    found = annotated(source, start=start, by=settler)

    assert (ids(found), source.again) == ([1], [])


def test_a_purged_group_is_an_error_with_its_name() -> None:
    """The error comes after earlier events."""
    log = Log()
    plain(log, 1)
    statement(log, f"XA COMMIT {XID_A}")

    with pytest.raises(DecodeError, match="XA COMMIT X'61',X'',1: its rows are in no journal") as caught:
        annotated(Source(n1000000=log))

    assert "sluice copy" in caught.value.hint


def test_a_purged_group_is_searched_once() -> None:
    """An instance retries often; the source is asked once."""
    log = Log()
    statement(log, f"XA COMMIT {XID_A}")
    source = Source(n1000000=log)
    history = source.history()
    for _ in range(3):
        with pytest.raises(DecodeError):
            annotated(source, by=Settler(history.reread, history.find_prepared))

    assert len(source.again) == 1


def test_a_prepared_transaction_without_rows(size: int) -> None:
    """MariaDB writes one when only non-transactional tables changed."""
    log = Log()
    maria_gtid(log, 0x48)
    prepare(log, XID_A)
    plain(log, 1)
    maria_gtid(log, 0x8D)
    log.query(f"XA COMMIT {XID_A}")

    found = annotated(Source(size, n1000000=log))

    assert (ids(found), ends(found)) == ([1], 3)


def test_names_of_xa_transactions() -> None:
    """Statements and events name them alike; the format id has 32 bits in events."""
    body = b"\0" + b"\xff\xff\xff\xff\2\0\0\0\1\0\0\0ab\0"
    for number in (4294967295, -1):
        name = named_in(f"XA COMMIT X'6162',X'00',{number}", "")
        assert prepared_in(body, "") == (name, False)
    assert str(name) == "X'6162',X'00',4294967295"
    for damaged in (body[:-1], body[:9], body + b"x"):
        with pytest.raises(DecodeError, match="damaged"):
            prepared_in(damaged, "")
    with pytest.raises(DecodeError, match="names no XA"):
        named_in("XA COMMIT @x", "")


def test_another_group_in_its_place_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The binlogs of the source were reset."""
    monkeypatch.setattr(prepared_groups.PreparedGroups.__init__, "__defaults__", (0,))
    log, other = Log(), Log()
    xa(log, XID_A, 1)
    xa(other, XID_B, 2)
    statement(log, f"XA COMMIT {XID_A}")
    source, reset = Source(n1000000=log), Source(n1000000=other).history()

    with pytest.raises(DecodeError, match="no longer where it was"):
        annotated(source, by=Settler(reset.reread, source.history().find_prepared))


def test_rows_of_mariadb_wait_too(size: int) -> None:
    """Its GTID marks XA START, which has no event; rows rolled back to a savepoint stay out."""
    log = Log()
    maria_gtid(log, 0x48)
    insert(log, 1)
    log.query("SAVEPOINT `a b`")
    insert(log, 2)
    log.query("ROLLBACK TO `A B`")
    insert(log, 3)
    prepare(log, XID_A)
    maria_gtid(log, 0x0C)
    insert(log, 4)
    log.add(16, bytes(8))
    maria_gtid(log, 0x8D)
    log.query(f"XA COMMIT {XID_A}")

    found = annotated(Source(size, n1000000=log))

    assert ids(found) == [4, 1, 3]
    assert ends(found) == 3


def rollback(log: Log) -> None:
    log.query("DROP TEMPORARY TABLE IF EXISTS `x` /* generated by server */")
    log.query("ROLLBACK")


def test_a_group_that_is_rolled_back_leaves_no_rows(size: int) -> None:
    """MySQL marks groups that may hold statements; of MariaDB all groups are in doubt."""
    log = Log()
    plain(log, *range(10, 20), end=rollback, flags=1)
    plain(log, 1)
    maria_gtid(log, 0x0C)
    insert(log, *range(20, 30))
    rollback(log)
    maria_gtid(log, 0x08)
    insert(log, 2)
    log.query("COMMIT")

    found = annotated(Source(size, n1000000=log))

    assert ids(found) == [1, 2]
    assert ends(found) == 4


def test_a_rollback_to_a_savepoint(size: int) -> None:
    """A name set again moves; a savepoint can be used twice; others stay."""
    log = Log()
    gtid(log, 1)
    log.query("BEGIN")
    insert(log, 1)
    log.query("SAVEPOINT `a`")
    insert(log, 2)
    log.query("SAVEPOINT `b`")
    insert(log, 3)
    log.query("ROLLBACK TO `b`")
    insert(log, 4)
    log.query("ROLLBACK TO `b`")
    insert(log, 5)
    log.query("SAVEPOINT `a`")
    insert(log, 6)
    log.query('ROLLBACK TO SAVEPOINT "a"')
    insert(log, 7)
    log.add(16, bytes(8))
    plain(log, 8)

    assert ids(annotated(Source(size, n1000000=log))) == [1, 2, 5, 7, 8]


def test_a_savepoint_that_is_not_set_is_an_error() -> None:
    """A rollback to an unknown savepoint is refused."""
    log = Log()
    gtid(log, 1)
    log.query("BEGIN")
    insert(log, 1)
    log.query("ROLLBACK TO `nowhere`")

    with pytest.raises(DecodeError, match="a savepoint that its transaction does not set"):
        annotated(Source(n1000000=log))


def test_savepoints_are_compared_as_servers_do() -> None:
    """Case and accents do not count; quotes of either kind are not part of a name."""
    statements = [(1, "SAVEPOINT `é`"), (2, 'SAVEPOINT "aa""b"'), (3, "ROLLBACK TO E"), (4, 'ROLLBACK TO `AA"b`')]

    assert rolled_back([*statements, (5, "SAVEPOINT aab"), (6, "rollback work to savepoint AAB")], "") == [
        (1, 3),
        (2, 4),
        (5, 6),
    ]


def test_a_start_within_a_prepared_transaction() -> None:
    """After its rows nothing is missed; among them it is refused as any start within a transaction."""
    log = Log()
    xa(log, XID_A, 1, 2)
    statement(log, f"XA COMMIT {XID_A}")
    source = Source(n1000000=log)
    ends = source.blocks[JOURNAL].index["end"].tolist()

    assert ids(annotated(source, start=ends[4])) == [1, 2]
    with pytest.raises(DecodeError, match="no TABLE_MAP"):
        annotated(source, start=ends[2])
    with pytest.raises(DecodeError, match="only prepared"):
        annotated(source, start=ends[1])


def test_a_large_group_without_an_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group in doubt that ends nowhere is refused."""
    monkeypatch.setattr(settle, "HOLD", 150)
    log = Log()
    maria_gtid(log, 0x0C)
    insert(log, 1, 2, 3)
    maria_gtid(log, 0x0C)
    insert(log, 4)
    log.add(16, bytes(8))

    with pytest.raises(DecodeError, match="begins where the one before has not ended"):
        annotated(Source(2, n1000000=log))


def test_a_rollback_without_a_warning_is_refused() -> None:
    """A group that was not in doubt may have been served already."""
    log = Log()
    plain(log, 1, end=rollback)

    with pytest.raises(DecodeError, match="takes back changed rows"):
        annotated(Source(n1000000=log))


def test_tagged_gtids_raise_doubt_alike() -> None:
    """Their flags are a packed number after version, size and last field."""
    for flags, expected in ((b"\x02", []), (b"\x00", None)):
        log = Log()
        log.add(42, b"\x02\x99\x01\x00\x00" + flags + bytes(60))
        log.query("BEGIN")
        insert(log, 1)
        rollback(log)
        if expected is None:
            with pytest.raises(DecodeError):
                annotated(Source(n1000000=log))
        else:
            assert ids(annotated(Source(n1000000=log))) == expected


def test_a_large_transaction_has_places_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is larger than all places together: each takes more, and none spans blocks."""
    monkeypatch.setattr(splice, "STEP", 16)
    log = Log()
    xa(log, XID_A, *range(2000))
    before = log.end + 19 + 42 + 4
    statement(log, f"XA COMMIT {XID_A}")

    found = annotated(Source(3, n1000000=log))

    assert ids(found) == list(range(2000))
    places = [{int(end) for end in block.index["end"][block.index["kind"] == Kind.ROWS]} for block in found]
    assert all(before < end < log.end for place in places for end in place)
    assert sum(map(len, places)) == len(set.union(*places)) > 50


def test_nothing_is_held_of_ordinary_groups() -> None:
    """Their blocks go on as they are."""
    log = Log()
    plain(log, 1, 2)
    source = Source(3, n1000000=log)
    history = source.history()
    settler = Settler(history.reread, history.find_prepared)
    read = list(source.read(JOURNAL))

    assert [[len(piece.index) for piece in settler.push(block)] for block in read] == [[3], [3]]
    assert Group(JOURNAL, 4, 5).rows is None


def test_flipped_bits_never_crash() -> None:
    """Damaged bytes are an error or another meaning."""
    log = Log()
    xa(log, XID_B, 1)
    plain(log, 2, end=rollback, flags=1)
    statement(log, f"XA COMMIT {XID_B}")
    source = Source(3, n1000000=log)
    whole = source.blocks[JOURNAL]
    for at in range(0, len(whole.data)):
        data = whole.data.copy()
        data[at] ^= 0x11
        source.blocks[JOURNAL] = replace(whole, data=data)
        with contextlib.suppress(DecodeError):
            annotated(source)


class Story:
    """A random journal and what must come of it: `expected` ids in their order, `waiting` rows by XA transaction."""

    def __init__(self, steps: list[tuple[int, int]]) -> None:
        self.log, self.expected, self.starts = Log(), list[int](), [4]
        self.waiting: dict[str, list[int]] = {}
        self._number = 0
        for kind, size in steps:
            (self._plain, self._rolled_back, self._maria, self._prepare, self._decide, self._once)[kind](size)
            self.starts.append(self.log.end)

    def _rows(self, count: int) -> list[int]:
        numbers = list(range(self._number + 1, self._number + 1 + count))
        self._number += count
        insert(self.log, *numbers)
        return numbers

    def _body(self, size: int) -> list[int]:
        """Rows around a savepoint, gone back to when `size` is odd."""
        found = self._rows(1 + size % 5)
        self.log.query("SAVEPOINT `s`")
        behind = self._rows(1 + size % 3)
        if size % 2:
            self.log.query("ROLLBACK TO `s`")
        return found + ([] if size % 2 else behind) + self._rows(1)

    def _plain(self, size: int) -> None:
        gtid(self.log)
        self.log.query("BEGIN")
        self.expected += self._rows(1 + size)
        self.log.add(16, bytes(8))

    def _rolled_back(self, size: int) -> None:
        gtid(self.log, 1)
        self.log.query("BEGIN")
        self._body(size)
        self.log.query("ROLLBACK")

    def _maria(self, size: int) -> None:
        maria_gtid(self.log, 0x0C)
        self.expected += self._body(size)
        self.log.query("COMMIT")

    def _prepare(self, size: int) -> None:
        name = f"X'{size:02x}',X'',1"
        if name in self.waiting:
            return
        gtid(self.log)
        self.log.query(f"XA START {name}")
        self.waiting[name] = self._body(size)
        prepare(self.log, name)

    def _decide(self, size: int) -> None:
        for name in list(self.waiting)[: 1 + size % 2]:
            rows = self.waiting.pop(name)
            statement(self.log, f"XA {'ROLLBACK' if size % 5 == 0 else 'COMMIT'} {name}")
            self.expected += [] if size % 5 == 0 else rows

    def _once(self, size: int) -> None:
        gtid(self.log)
        self.log.query("XA START X'ff',X'',1")
        self.expected += self._body(size)
        prepare(self.log, "X'ff',X'',1", one_phase=True)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=14),
    st.integers(1, 12),
    st.sampled_from([150, 400, 1 << 22]),
    st.sampled_from([0, 600, 1 << 24]),
    st.data(),
)
def test_any_journal_in_any_pieces(
    steps: list[tuple[int, int]], events: int, hold: int, cache: int, data: st.DataObject
) -> None:
    """What was committed comes in that order; any start and any bounds give the same rows and positions."""
    story = Story(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splice, "STEP", 64)
        whole = annotated(Source(1000, n1000000=story.log))
        assert ids(whole) == story.expected
        patch.setattr(settle, "HOLD", hold)
        patch.setattr(prepared_groups.PreparedGroups.__init__, "__defaults__", (cache,))
        start = data.draw(st.sampled_from(story.starts))
        found = annotated(Source(events, n1000000=story.log), start=start)
        assert rows(found) == [row for row in rows(whole) if row[1] > start]

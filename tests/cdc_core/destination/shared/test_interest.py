"""Who looks at a block of a shared connection at once."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cdc_core.binlog.block import INDEX, Block
from cdc_core.binlog.events import EventType
from cdc_core.destination.shared.interest import Interest
from tests.support.shared_journals import cut, journal

TABLES = ["a", "b", "a", "c"]


@pytest.fixture
def interest() -> Interest:
    """Readers 1 and 2 of the tables a and b, 3 of both."""
    found = Interest()
    for reader, tables in enumerate(("a", "b", "ab"), 1):
        found.add(reader, lambda database, table, tables=tables: database == "d" and table in tables)
    return found


def _one(kind: int, body: bytes) -> Block:
    index = np.zeros(1, INDEX)
    index["type"], index["length"], index["end"] = kind, 19 + len(body), 23 + len(body)
    data = struct.pack("<IBIIIH", 1, kind, 1, 19 + len(body), 23 + len(body), 0) + body
    return Block("b.1", 4, np.frombuffer(data, np.uint8), index)


def _query(text: bytes) -> bytes:
    return struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"d\0" + text


def test_by_table(interest: Interest) -> None:
    """Each reader of one of the block's tables, and nobody of a table that nobody captures."""
    whole = journal("b.1", TABLES)
    assert set(interest.of(cut(whole, 0, 5))) == {1, 3}
    assert set(interest.of(cut(whole, 5, 10))) == {2, 3}
    assert set(interest.of(cut(whole, 15, 20))) == set()
    assert set(interest.of(whole)) == {1, 2, 3}


def test_the_rest_of_a_transaction_comes_as_soon(interest: Interest) -> None:
    """Its rows and its end may be in later blocks, without the table's name."""
    whole = journal("b.1", TABLES)
    assert set(interest.of(cut(whole, 0, 3))) == {1, 3}
    assert set(interest.of(cut(whole, 3, 4))) == {1, 3}
    assert set(interest.of(cut(whole, 4, 5))) == {1, 3}
    assert set(interest.of(cut(whole, 15, 20))) == set()


def test_a_reader_that_came_or_left(interest: Interest) -> None:
    """Counts from the next block on."""
    whole = journal("b.1", TABLES)
    assert set(interest.of(cut(whole, 15, 20))) == set()
    interest.add(4, lambda _database, table: table == "c")
    assert set(interest.of(cut(whole, 15, 18))) == {4}
    interest.remove(4)
    assert set(interest.of(cut(whole, 18, 19))) == set()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (EventType.QUERY, _query(b"ALTER TABLE x ADD y INT")),
        (EventType.QUERY, _query(b"ROLLBACK")),
        (EventType.QUERY, b""),
        (EventType.XA_PREPARE, bytes(20)),
        (EventType.TABLE_MAP, b"\1"),
        (EventType.TRANSACTION_PAYLOAD, b"damaged"),
        (250, b""),
    ],
)
def test_what_names_no_table_everybody_wants(interest: Interest, kind: int, body: bytes) -> None:
    """Statements, XA, what is damaged or unknown."""
    if (kind, body) == (EventType.QUERY, b""):
        assert set(interest.of(_one(kind, body))) <= {1, 2, 3}  # too short to be read: it comes with the next block
    else:
        assert set(interest.of(_one(kind, body))) == {1, 2, 3}


@pytest.mark.parametrize("text", [b"BEGIN", b"COMMIT", b"SAVEPOINT x"])
def test_a_statement_of_every_transaction_wakes_nobody(interest: Interest, text: bytes) -> None:
    """A transaction is known by its tables."""
    assert set(interest.of(_one(EventType.QUERY, _query(text)))) == set()


def test_what_is_known_of_tables_is_bounded(interest: Interest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server gives new ids without end, and programs make tables of ever new names."""
    monkeypatch.setattr("cdc_core.destination.shared.interest._MOST", 5)
    for number in range(50):
        names = b"\x01d\0" + bytes([4]) + b"%04d" % number + b"\0"
        assert not interest.of(_one(EventType.TABLE_MAP, struct.pack("<IHH", number, 0, 0) + names))
    assert len(interest._by_id) <= 5
    assert len(interest._by_name) <= 5

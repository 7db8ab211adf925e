"""Canal's entries read with protobuf, for tests of what writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cdc_core.canal.entries.kinds import EntryType
from cdc_core.canal.protocol import declared

_STORES = {
    EntryType.TRANSACTIONBEGIN: declared.TransactionBegin,
    EntryType.ROWDATA: declared.RowChange,
    EntryType.TRANSACTIONEND: declared.TransactionEnd,
}


def entries_of(pieces: Iterable[Any]) -> list[Any]:
    """The entries of an encoder's pieces. Their bytes are exactly those that protobuf would write."""
    raw = b"".join(bytes(piece) for piece in pieces)
    messages = declared.Messages.FromString(raw)
    assert messages.SerializeToString() == raw
    entries = []
    for one in messages.messages:
        entry = declared.Entry.FromString(one)
        assert entry.SerializeToString(deterministic=True) == one
        store = store_of(entry)
        assert store.SerializeToString(deterministic=True) == entry.storeValue
        entries.append(entry)
    return entries


def store_of(entry: Any) -> Any:
    """The message in an entry's store value."""
    return _STORES[EntryType(entry.entryType)].FromString(entry.storeValue)


def values(columns: Iterable[Any]) -> dict[str, str | None]:
    """The texts of columns by name, None for NULL."""
    return {column.name: None if column.isNull else column.value for column in columns}


def props(message: Any) -> dict[str, str]:
    return {pair.key: pair.value for pair in message.props}

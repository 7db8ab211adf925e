"""Histories of a small table, drawn at random, and the rows events that a server writes of them."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st

from tests.support.binlog_files import Log, image, table_map_body

KEYED = [("a", 8, b""), ("b", 15, b"\x14\x00"), ("v", 3, b"")]
Change = tuple[str, tuple[Any, ...] | None, tuple[Any, ...] | None]  # operation, old row, new row


def written(changes: list[list[Change]], columns: list[tuple[str, int, bytes]], key: list[int]) -> Log:
    """A transaction for each list of changes; neighbours of the same kind share an event."""
    log = Log()
    for number, transaction in enumerate(changes):
        log.query("BEGIN")
        for kind, old, new in transaction:
            log.table_map(number + 1, table_map_body("t", columns, key))
            images = b"".join(image(columns, row) for row in (old, new) if row is not None)
            log.rows({"insert": 30, "update": 31, "delete": 32}[kind], number + 1, len(columns), images)
        log.add(16, bytes(8))
    return log


VALUES = st.one_of(st.none(), st.integers(0, 3))
KEYS = st.tuples(st.integers(-2, 2), st.sampled_from(["", "a", "ab", "abcdefghi", "abcdefgh"]))


@st.composite
def histories(draw: st.DrawFn) -> list[list[Change]]:
    """Transactions that a server could write: inserts of free keys, changes of present ones."""
    table: dict[tuple[int, str], Any] = dict(draw(st.dictionaries(KEYS, VALUES, max_size=4)))
    history: list[list[Change]] = []
    for _ in range(draw(st.integers(1, 6))):
        transaction: list[Change] = []
        for _ in range(draw(st.integers(1, 5))):
            key, value = draw(KEYS), draw(VALUES)
            if not table or (key not in table and draw(st.booleans())):
                if key not in table:
                    transaction.append(("insert", None, (*key, value)))
                    table[key] = value
                continue
            old = draw(st.sampled_from(sorted(table)))
            old_row = (*old, table.pop(old))
            if draw(st.booleans()):
                transaction.append(("delete", old_row, None))
                continue
            new = key if key not in table else old
            transaction.append(("update", old_row, (*new, value)))
            table[new] = value
        history.append(transaction)
    return history

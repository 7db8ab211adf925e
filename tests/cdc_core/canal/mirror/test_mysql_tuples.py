"""Tuples of an INSERT as the kernel writes them, against those that Python writes of the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.canal.client.events import Message, Rows
from cdc_core.canal.entries.java_types import JavaType
from cdc_core.canal.entries.kinds import CanalEventType, EntryType
from cdc_core.canal.mirror.columns import Columns, EntryImages
from cdc_core.canal.mirror.mysql_rows import literal
from cdc_core.canal.mirror.mysql_tuples import _order, _put_tuples, tuples
from cdc_core.canal.mirror.rules import MirrorRule
from cdc_core.canal.protocol import declared
from cdc_core.canal.scan.cells import CELL

TYPES = (
    ("text", JavaType.VARCHAR, "varchar(20)"),
    ("number", JavaType.BIT, "bit(8)"),
    ("label", JavaType.INTEGER, "enum('a','b')"),
    ("bytes", JavaType.BLOB, "blob"),
    ("fixed", JavaType.BLOB, "binary(4)"),
)
TEXTS = (
    st.none()
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
    | st.text("\\'\0\n\r\x1a,)x", max_size=8)
)
NUMBERS = st.none() | st.integers(0, 2**64).map(str)
RAW = st.none() | st.binary(max_size=6).map(lambda raw: raw.decode("latin-1"))
LONG_TEXTS, LONG_RAW = (values.map(lambda value: value and value * 60) for values in (TEXTS, RAW))
ROWS = st.lists(st.tuples(TEXTS | LONG_TEXTS, NUMBERS, NUMBERS, RAW | LONG_RAW, RAW), min_size=1, max_size=5)
WHOLE = MirrorRule(database="d", table="t", map_all=True)
SOME = MirrorRule(database="d", table="t", target_columns={"b": "bytes", "t": "text", "f": "fixed"})
REPEATED = MirrorRule(
    database="d",
    table="t",
    map_all=True,
    target_columns={f"{name}{number}": name for name in ("text", "bytes", "number", "fixed") for number in range(3)},
)
RULES = (WHOLE, SOME, REPEATED)


def _rows(images: list[Any], kind: CanalEventType = CanalEventType.INSERT) -> Rows:
    change = declared.RowChange(eventType=kind)
    for image in images:
        row = change.rowDatas.add()
        for columns in (row.beforeColumns, row.afterColumns)[kind == CanalEventType.INSERT :]:
            for number, ((name, java, mysql), value) in enumerate(zip(TYPES, image, strict=True)):
                column = columns.add(index=number, name=name, sqlType=java, mysqlType=mysql, isNull=value is None)
                column.value = value or ""
    entry = declared.Entry(entryType=EntryType.ROWDATA, storeValue=change.SerializeToString())
    (found,) = Message(1, (entry.SerializeToString(),)).changes()
    assert isinstance(found, Rows)
    return found


def _images(rows: Rows, rule: MirrorRule, *parts: tuple[int, int]) -> EntryImages:
    images = EntryImages(Columns.of(rows.shape.after, rows.shape, rule), labels=False)
    for low, high in parts or ((0, len(rows)),):
        images.add(rows, low, high)
    return images


@given(ROWS, st.sampled_from((CanalEventType.INSERT, CanalEventType.UPDATE)), st.sampled_from(RULES))
def test_the_kernel_writes_what_python_writes(images: list[Any], kind: CanalEventType, rule: MirrorRule) -> None:
    """Random rows of all types become the same tuples of SQL in both ways."""
    found = _images(_rows(images, kind), rule)
    assert tuples(found) == ", ".join(f"({', '.join(map(literal, row))})" for row in found)


@pytest.mark.parametrize("count", [1, 2, 3, 50])
@pytest.mark.parametrize("row", [("'" * 300, None, None, None, None), (None, None, None, "\xff" * 300, "")])
def test_a_column_for_several_of_the_target(count: int, row: tuple[Any, ...]) -> None:
    """A value is written as often as the rule has its column, however long it is."""
    columns = {f"{name}{number}": name for name in ("text", "bytes", "fixed") for number in range(count)}
    found = _images(_rows([row]), MirrorRule(database="d", table="t", target_columns=columns))
    assert tuples(found) == f"({', '.join(map(literal, found[0]))})"


@given(ROWS, st.sampled_from(RULES), st.floats(0, 1))
def test_nothing_is_written_beyond_the_room(images: list[Any], rule: MirrorRule, share: float) -> None:
    """Rows for which there is too little room are not written."""
    found = _images(_rows(images), rule)
    whole = (tuples(found) or "").encode()
    memory = np.full(len(whole) + 1000, 0xEE, np.uint8)
    room = int(share * len(whole))
    order, store = _order(found.columns), found.parts[0].rows.store
    parts = np.array([0, len(store), 0, len(found)], np.int64)
    parts.flags.writeable = False
    size = _put_tuples(np.frombuffer(store, np.uint8), parts, order, np.empty(2 * order.width, CELL), memory[:room])
    assert size < 0 or memory[:size].tobytes() == whole
    assert (memory[room:] == 0xEE).all()


def test_parts_of_entries() -> None:
    """Only the rows of a part are written, and parts of several entries follow each other."""
    one, other = (_rows([(text, None, None, None, None) for text in texts]) for texts in ("abcd", "efgh"))
    images = _images(one, WHOLE, (1, 2), (2, 3))
    images.add(other, 3, 4)
    assert [row[0] for row in images] == ["b", "c", "h"]
    assert tuples(images) == ", ".join(f"('{text}', NULL, NULL, NULL, NULL)" for text in "bch")
    assert tuples(images.only([0])) == "('b'), ('c'), ('h')"


@pytest.mark.parametrize(
    "row", [("", "1e3", None, None, None), ("", "", None, None, None), ("", None, None, "€", None)]
)
def test_values_that_are_not_of_their_type(row: tuple[Any, ...]) -> None:
    """The kernel leaves them to Python, which raises."""
    found = _images(_rows([row]), WHOLE)
    assert tuples(found) is None
    with pytest.raises(ValueError, match=r"invalid literal|codec can"):
        list(found)

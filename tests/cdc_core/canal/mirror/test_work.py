"""Which rows of a batch become one statement, and in which order statements are."""

from __future__ import annotations

from cdc_core.canal.client.events import Message, Rows
from cdc_core.canal.entries.java_types import JavaType
from cdc_core.canal.entries.kinds import CanalEventType, EntryType
from cdc_core.canal.mirror.rules import MirrorRule
from cdc_core.canal.mirror.work import Work
from cdc_core.canal.protocol import declared

Row = tuple[int, str]
RULE = MirrorRule(database="d", table="t", map_all=True)


def _entry(kind: CanalEventType, *rows: tuple[Row | None, Row | None], key: bool = True) -> Rows:
    """Rows of `id, v`, before and after."""
    change = declared.RowChange(eventType=kind)
    for before, after in rows:
        row = change.rowDatas.add()
        for columns, image in ((row.beforeColumns, before), (row.afterColumns, after)):
            if image is not None:
                columns.add(name="id", value=str(image[0]), isKey=key, sqlType=JavaType.INTEGER, mysqlType="int")
                columns.add(name="v", value=image[1], sqlType=JavaType.VARCHAR, mysqlType="varchar(9)")
    entry = declared.Entry(entryType=EntryType.ROWDATA, storeValue=change.SerializeToString())
    entry.header.schemaName, entry.header.tableName = "d", "t"
    (found,) = Message(1, (entry.SerializeToString(),)).changes()
    assert isinstance(found, Rows)
    return found


def _inserts(*rows: Row, key: bool = True) -> Rows:
    return _entry(CanalEventType.INSERT, *((None, row) for row in rows), key=key)


def _groups(*entries: Rows) -> list[tuple[str, list[tuple[str, ...]]]]:
    work = Work()
    for entry in entries:
        work.add(entry, RULE)
    return [(group.kind, list(group.rows)) for group in work.groups()]


def test_inserts_and_updates_that_keep_their_key_are_one_statement() -> None:
    """In the order of the binlog: the last image of a key is the one that stays."""
    update = _entry(CanalEventType.UPDATE, ((1, "a"), (1, "b")), ((2, "x"), (2, "y")))
    assert _groups(_inserts((1, "a"), (2, "x")), update, _inserts((3, "z"))) == [
        ("upsert", [("1", "a"), ("2", "x"), ("1", "b"), ("2", "y"), ("3", "z")])
    ]


def test_a_row_that_moves_stands_alone_between_the_others() -> None:
    """A change of a key is neither put together with rows before it nor with those after it."""
    update = _entry(CanalEventType.UPDATE, ((1, "a"), (1, "b")), ((1, "b"), (9, "b")), ((2, "x"), (2, "y")))
    assert _groups(_inserts((1, "a"), (2, "x")), update) == [
        ("upsert", [("1", "a"), ("2", "x"), ("1", "b")]),
        ("move", [("9", "b")]),
        ("upsert", [("2", "y")]),
    ]


def test_deletes_are_by_key() -> None:
    """Rows that are deleted one after the other become one statement over their keys."""
    deletes = _entry(CanalEventType.DELETE, ((1, "a"), None), ((2, "x"), None))
    assert _groups(_inserts((1, "a")), deletes, _inserts((1, "b"))) == [
        ("upsert", [("1", "a")]),
        ("delete", [("1",), ("2",)]),
        ("upsert", [("1", "b")]),
    ]


def test_rows_without_a_key_are_changed_one_by_one() -> None:
    """Equal rows of a table without a key are not put together."""
    update = _entry(CanalEventType.UPDATE, ((1, "a"), (1, "b")), key=False)
    deletes = _entry(CanalEventType.DELETE, ((1, "b"), None), ((2, "x"), None), key=False)
    assert _groups(_inserts((1, "a"), (2, "x"), key=False), update, deletes) == [
        ("insert", [("1", "a"), ("2", "x")]),
        ("update", [("1", "b")]),
        ("delete", [()]),
        ("delete", [()]),
    ]


def test_a_statement_has_a_thousand_rows() -> None:
    """Also where an entry has more."""
    groups = _groups(*[_inserts(*((number, "v") for number in range(low, low + 900))) for low in (0, 900, 1800)])
    assert [len(rows) for _, rows in groups] == [1000, 1000, 700]
    assert [int(row[0]) for _, rows in groups for row in rows] == list(range(2700))

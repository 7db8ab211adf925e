"""The order of cascades: without Spark, over rows in memory."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext, suppress
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from cdc_core.contract.claim import TableRange
from cdc_core.position import EntryPosition
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.apply import cascade, in_snapshots
from spark_jobs.apply.cascade import Cascades
from spark_jobs.apply.cascade_sql import KEYS
from spark_jobs.apply.lost_keys import Lost
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn
from spark_jobs.snapshot.foreign_keys import ForeignKey, Rule


def key(child: str, parent: str, columns: str = "up", referenced: str = "id") -> ForeignKey:
    return ForeignKey(("d", child), (columns,), ("d", parent), (referenced,), Rule.CASCADE, Rule.RESTRICT)


class Memory:
    """A lake of tables (id, up), a source that has those rows that are `back` alone, and a claim that deletes row 1 of
    `a`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *keys: ForeignKey) -> None:
        self.tables = {"b": {10: 1, 11: 2}, "c": {100: 10, 110: 11}}
        self.back: set[int] = set()
        self.asked: list[tuple[str, str]] = []
        self.written: list[str] = []
        self.left = 100  # statements until the run dies
        self.views: dict[str, Any] = {}
        self.notes: list[dict[str, Any]] = []
        self.now = EntryPosition("binlog.000002", 4)
        columns = (Column("id", 3, 0), Column("up", 3, 0))
        parent = TableRange(TableSchema("d", "a", columns, ("id",)), 0, 0, 1)
        claim = SimpleNamespace(
            tables=(parent,), ddl=(), snapshots=(), destination="d", client_id=1, epoch=0, table_names=("d.a",),
            start=EntryPosition("binlog.000001", 4), end=EntryPosition("binlog.000001", 400), batch_id=1,
        )  # fmt: skip
        lake = SimpleNamespace(path=lambda _, table: table, state=self._state, rules=None)
        sessions, fence = SimpleNamespace(take=self._take), SimpleNamespace(enter=lambda *of: of[2])
        self.batch = cast(Any, SimpleNamespace(claim=claim, lake=lake, sessions=sessions, fence=fence, run_id="run"))
        self.cascades = Cascades(lambda: cast(Any, MagicMock()), self._captured)
        replaced: dict[str, Any] = {
            "read_foreign_keys": lambda *_: keys,
            "create_keys": self._create_keys,
            "may_lose": lambda *_: True,
            "transaction": self._transaction,
            "position": lambda _: self.now,
            "run_statement": self._run,
        }
        for name, double in replaced.items():
            monkeypatch.setattr(cascade, name, double)
        monkeypatch.setattr(Cascades, "_candidates", self._candidates)
        monkeypatch.setattr(Cascades, "_fixed", lambda _, found, *__: (self._fixed(found), ("up",)))

    def follow(self, *stopped: str) -> cascade.Done:
        return self.cascades.follow(self.batch, stopped)

    def _transaction(self, _spark: Any, _app: str, _version: int, note: str, **_: Any) -> Any:
        self.notes.append(json.loads(note))
        return nullcontext()

    def _captured(self) -> set[tuple[str, str]]:
        return {("d", name) for name in "abc"}

    def _state(self, path: str, _app: str) -> TableState | None:
        if path not in self.tables:
            return None
        columns = (LakeColumn("id", "int"), LakeColumn("up", "int"))
        return TableState(1, None, columns, {"sluice.primary_key": '["id"]'})

    @contextmanager
    def _take(self) -> Any:
        frame = lambda rows: SimpleNamespace(createOrReplaceTempView=lambda name: self.views.update({name: rows}))  # noqa: E731
        yield SimpleNamespace(createDataFrame=frame)

    def _create_keys(self, _spark: Any, _batch: Any, _key: ForeignKey, lost: Lost) -> bool:
        self.asked.append((_key.child[1], "unknown" if lost.unknown else "hidden" if lost.hidden else ""))
        named = list(self.tables.get(_key.child[1], {}).values())
        self.views[KEYS] = pa.table({"id": named if lost.unknown else [1]}) if lost.rows is None else lost.rows
        return True

    def _candidates(self, _spark: Any, path: str, *_: Any) -> pa.Table:
        left = set(self.views[KEYS].column("id").to_pylist())
        rows = [(row, up) for row, up in self.tables[path].items() if up in left]
        return pa.table({"id": [row for row, _ in rows], "up": [up for _, up in rows]})

    def _fixed(self, found: pa.Table) -> pa.Table:
        return found.filter(pa.array([row not in self.back for row in found.column("id").to_pylist()], pa.bool_()))

    def _run(self, _spark: Any, _sql: str, path: str) -> None:
        if not self.left:
            raise SystemExit("killed")
        self.left -= 1
        self.written.append(path)
        for row in self.views[cascade.FIXED].column("id").to_pylist():
            self.tables[path].pop(row, None)


@pytest.fixture(autouse=True)
def fixed_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Change.what` counts a column that the rows here do not have."""
    monkeypatch.setattr(cascade.Change, "what", None)


def test_what_a_dead_run_left_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last table of a chain is written first."""
    memory = Memory(monkeypatch, key("b", "a"), key("c", "b"))
    memory.left = 1
    with suppress(SystemExit):
        memory.follow()
    assert memory.written == ["c"]
    memory.left = 100
    memory.follow()
    assert memory.tables == {"b": {11: 2}, "c": {110: 11}}


def test_rows_are_of_the_place_at_which_the_source_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be ahead of the claim: commits and the claim's outcome say so, also for a table where nothing changed.
    A place in other journals says nothing."""
    memory = Memory(monkeypatch, key("b", "a"), key("c", "b"))
    memory.back = {10, 11, 100, 110}
    high = memory.now.version()
    assert memory.follow().looked_up == {"d.b": high, "d.c": high}
    assert memory.notes == []
    memory.back = set()
    assert memory.follow().looked_up == {"d.b": high, "d.c": high}
    assert [(one["table"], one["cascade"]) for one in memory.notes] == [
        ("d.c", {"high": high}),
        ("d.b", {"high": high}),
    ]
    memory = Memory(monkeypatch, key("b", "a"))
    memory.now = EntryPosition("other.000002", 4)
    assert memory.follow().looked_up == {"d.b": None}


def test_a_row_that_came_back_does_not_hide_what_went_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source has it as it was, and not the rows that referenced it. A row there that is right is left alone."""
    memory = Memory(monkeypatch, key("b", "a"), key("c", "b"))
    memory.back = {10, 101}
    memory.tables["c"][101] = 10
    memory.follow()
    assert memory.tables == {"b": {10: 1, 11: 2}, "c": {110: 11, 101: 10}}
    assert memory.written == ["c"]


def test_rows_that_reference_each_other_in_a_circle_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is found once."""
    memory = Memory(monkeypatch, key("b", "a"), key("b", "b"))
    memory.tables = {"b": {1: 1, 2: 1, 3: 2}}
    memory.follow()
    assert memory.tables == {"b": {}}


def test_rows_below_a_table_that_is_not_known_are_all_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped, or not in the lake. Where it is in the lake as the cascade met it, its own rows decide."""
    keys = key("b", "a"), key("c", "b")
    memory = Memory(monkeypatch, *keys)
    memory.follow()
    assert memory.asked == [("b", ""), ("c", "")]
    memory = Memory(monkeypatch, *keys)
    memory.batch.claim.table_names = ("d.a", "d.b")
    memory.follow()
    assert memory.asked == [("b", ""), ("c", "hidden"), ("c", "")]
    memory = Memory(monkeypatch, *keys)
    memory.back = {110}
    memory.follow("d.b")
    assert memory.tables == {"b": {10: 1, 11: 2}, "c": {110: 11}}
    memory = Memory(monkeypatch, *keys)
    del memory.tables["b"]
    memory.follow()
    assert (memory.asked[-1], memory.tables) == (("c", "unknown"), {"c": {}})


def test_open_snapshots_learn_what_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's keeps the keys, one below a table of the lake those of its own parent. One below a table that is not
    in the lake, or is stopped, begins again, and so does one whose keys are not known."""
    keys = key("b", "a"), key("c", "b"), key("e", "missing"), key("missing", "a")
    memory = Memory(monkeypatch, *keys)
    memory.batch.claim.snapshots = (("d.b", "1"), ("d.c", "2"), ("d.e", "3"))
    kept: list[tuple[str, str]] = []

    def keep(_batch: Any, foreign: ForeignKey, lost: Lost, snapshot_id: str) -> bool:
        if lost.unknown:
            return False
        kept.append((foreign.child[1], snapshot_id))
        return foreign.child[1] != "c"

    monkeypatch.setattr(in_snapshots, "_kept", keep)
    monkeypatch.setattr(in_snapshots, "may_lose", lambda *_: True)
    done = memory.cascades.follow(memory.batch, ())
    assert (kept, sorted(done.unlogged)) == ([("b", "1"), ("c", "2")], ["d.c", "d.e"])
    kept.clear()
    done = memory.cascades.follow(memory.batch, ("d.b",))
    assert (kept, sorted(done.unlogged)) == ([("b", "1")], ["d.c", "d.e"])


@pytest.mark.parametrize(
    "hidden", [{"d.b": TableRule(exclude=("up",))}, {"d.a": TableRule(rename=(("id", "number"),))}]
)
def test_a_child_stops_whose_foreign_key_a_rule_hides(
    monkeypatch: pytest.MonkeyPatch, hidden: dict[str, TableRule]
) -> None:
    """On either side: the lake could not find the rows that the source deletes. A rule of another column is none."""
    memory = Memory(monkeypatch, key("b", "a"))
    memory.cascades = Cascades(lambda: cast(Any, MagicMock()), memory._captured, rules=Rules(hidden))
    done = memory.cascades.follow(memory.batch, ())
    (refused,) = done.refused
    assert refused.table == "d.b"
    assert "a rule hides, masks or renames its columns" in refused.error.message
    assert (memory.written, memory.asked) == ([], [])
    memory.cascades = Cascades(
        lambda: cast(Any, MagicMock()), memory._captured, rules=Rules({"d.*": TableRule(exclude=("password",))})
    )
    assert memory.cascades.follow(memory.batch, ()).refused == ()
    assert memory.written == ["b"]

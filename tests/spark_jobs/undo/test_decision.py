"""Which rows an undo, a redo and a replay put, against a model that has whole tables."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.errors import LakeError
from spark_jobs.changes.columns import DELETE, INSERT, OP, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE
from spark_jobs.undo.decision import ADDED, GONE, PooledRow, RowDecision, RowPool, Toward, decide, net_changes

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
Rows = dict[int, str]
Change = tuple[int, str | None]


def pool() -> RowPool:
    return RowPool(SCHEMA, ["id"])


def batch(*rows: tuple[int, str, str]) -> pa.RecordBatch:
    """A batch of images: key, value, op."""
    ids, values, ops = zip(*rows, strict=True) if rows else ((), (), ())
    columns = [pa.array(ids, pa.int64()), pa.array(values, pa.string()), pa.array(ops, pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["id", "v", OP])


def applied(rows: Rows, changes: list[Change]) -> tuple[Rows, pa.RecordBatch]:
    """The rows after changes, and their images as a log has them."""
    there, images = dict(rows), list[tuple[int, str, str]]()
    for key, value in changes:
        old = there.pop(key, None)
        if value is None:
            images += [(key, old, DELETE)] if old is not None else []
            continue
        there[key] = value
        images += [(key, old, UPDATE_BEFORE), (key, value, UPDATE_AFTER)] if old is not None else [(key, value, INSERT)]
    return there, batch(*images)


def decided(images: pa.RecordBatch, now: Rows, toward: Toward = "before", *, force: bool = False) -> RowDecision:
    """The decision for a table that has these rows now."""
    rows = pool()
    net = net_changes(rows, [images])
    there = dict[bytes, list[PooledRow]]()
    if now:
        for key, row in rows.add(pa.RecordBatch.from_pydict({"id": [*now], "v": [*now.values()]}, SCHEMA)):
            there.setdefault(key, []).append(row)
    return decide(rows, net, there, toward, force=force)


def put(decision: RowDecision, now: Rows) -> Rows:
    """The rows after the MERGE that the decision makes."""
    there, source = dict(now), decision.source().to_pylist()
    for one in source:
        if one["_sluice_op"] == GONE:
            there.pop(one["id"], None)
    for one in source:
        if one["_sluice_op"] == ADDED:
            assert one["id"] not in there
            there[one["id"]] = one["v"]
    return there


CHANGES = st.lists(st.tuples(st.integers(0, 4), st.none() | st.sampled_from("abc")), max_size=8)


class TestDecide:
    @settings(deadline=None, max_examples=60)
    @given(st.dictionaries(st.integers(0, 4), st.sampled_from("abc")), CHANGES)
    def test_undo_and_redo(self, rows: Rows, changes: list[Change]) -> None:
        """An undo gives the rows before, a redo of what it did those after it, a replay as well; each is done once."""
        after, images = applied(rows, changes)
        undone = decided(images, after)
        assert put(undone, after) == rows
        assert not undone.changed
        done = undone.images().to_batches()
        again = decided(images, rows)
        assert (len(again.puts), again.already) == (0, len(undone.puts))
        replayed = decided(images, rows, "after")
        assert put(replayed, rows) == after
        for one in done:
            redone = decided(one, rows)
            assert put(redone, rows) == after

    @settings(deadline=None, max_examples=60)
    @given(st.dictionaries(st.integers(0, 4), st.sampled_from("abc")), CHANGES, CHANGES)
    def test_later_changes(self, rows: Rows, changes: list[Change], later: list[Change]) -> None:
        """A row that is not as the changes left it stays as it is; with force it becomes as before them. Other rows are
        never touched."""
        after, images = applied(rows, changes)
        now, _ = applied(after, later)
        left, forced = decided(images, now), decided(images, now, force=True)
        touched = {key for key in {*rows, *after} if rows.get(key) != after.get(key)}
        kept = {key: now.get(key) for key in range(5)}
        for key in touched:
            if now.get(key) == after.get(key):
                kept[key] = rows.get(key)
        assert put(left, now) == _present(kept)
        wanted = {key: (rows if key in touched else now).get(key) for key in range(5)}
        assert put(forced, now) == _present(wanted)
        assert left.left_alone == len(left.changed) == len(forced.changed)

    def test_counts(self) -> None:
        """One row is put, one is as it would be, one was changed since, and one that came and went is nothing."""
        _, images = applied({1: "a", 2: "a", 3: "a"}, [(1, "b"), (2, "b"), (3, "b"), (4, "x"), (4, None)])
        found = decided(images, {1: "b", 2: "a", 3: "c"})
        assert (len(found.puts), found.already, found.left_alone) == (1, 1, 1)
        (change,) = found.changed.values()
        assert change.left is not None
        assert found.pool.table([*change.was, change.left]).column("v").to_pylist() == ["c", "b"]
        assert found.images().to_pylist() == [
            {"id": 1, "v": "b", OP: UPDATE_BEFORE},
            {"id": 1, "v": "a", OP: UPDATE_AFTER},
        ]

    def test_key_twice(self) -> None:
        """A key that the table has twice was changed by others; with force it has one row."""
        rows = pool()
        net = net_changes(rows, [batch((1, "a", UPDATE_BEFORE), (1, "b", UPDATE_AFTER))])
        twice = pa.RecordBatch.from_pydict({"id": [1, 1], "v": ["b", "b"]}, SCHEMA)
        there = dict[bytes, list[PooledRow]]()
        for key, row in rows.add(twice):
            there.setdefault(key, []).append(row)
        assert decide(rows, net, there, "before").left_alone == 1
        forced = decide(rows, net, there, "before", force=True)
        assert [one["_sluice_op"] for one in forced.source().to_pylist()] == [GONE, ADDED]
        assert forced.images().column(OP).to_pylist() == [DELETE, UPDATE_BEFORE, UPDATE_AFTER]


class TestNetChanges:
    def test_truncate(self) -> None:
        """Nobody undoes a TRUNCATE by its rows."""
        with pytest.raises(LakeError, match="TRUNCATE"):
            net_changes(pool(), [batch((0, "", TRUNCATE))])

    def test_other_columns(self) -> None:
        """Rows that do not fit the table's columns are refused, with the reason."""
        with pytest.raises(LakeError, match="do not fit"):
            net_changes(pool(), [pa.RecordBatch.from_pydict({"id": [1], "w": ["a"], OP: [INSERT]})])
        with pytest.raises(LakeError, match="do not fit"):
            net_changes(pool(), [pa.RecordBatch.from_pydict({"id": ["x"], "v": ["a"], OP: [INSERT]})])

    def test_too_many(self) -> None:
        """A part of the past of more rows than a decision takes is refused."""
        small = RowPool(SCHEMA, ["id"], most=2)
        with pytest.raises(LakeError, match="more than 2 rows"):
            net_changes(small, [batch((1, "a", INSERT), (2, "a", INSERT), (3, "a", INSERT))])

    def test_changed_key(self) -> None:
        """A changed key is a delete of the one and an insert of the other."""
        found = decided(batch((1, "a", UPDATE_BEFORE), (2, "a", UPDATE_AFTER)), {2: "a"})
        assert put(found, {2: "a"}) == {1: "a"}


def _present(rows: Mapping[int, str | None]) -> Rows:
    return {key: value for key, value in rows.items() if value is not None}

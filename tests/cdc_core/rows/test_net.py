"""Net changes against a model of dictionaries, over rows events written by hand."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from cdc_core.binlog.block import Block, BlockSlice
from cdc_core.errors import SchemaError, TableStopped
from cdc_core.position import EntryPosition
from cdc_core.rows.net import plan_changes, plan_net, read
from cdc_core.schema.registry import SchemaRegistry
from tests.support.annotated import slices_of
from tests.support.binlog_files import Log, image, table_map_body
from tests.support.row_histories import KEYED, VALUES, Change, histories, written

ONE_KEY = [("id", 8, b""), ("v", 15, b"\x14\x00")]


def rows_of(
    slices: list[BlockSlice], registry: SchemaRegistry, after: int | None, splits: int
) -> list[tuple[Any, ...]]:
    plan = plan_net(slices, registry, "shop.t", after, splits)
    batches = [batch for split in range(len(plan.splits)) for batch in read(plan, split)]
    assert all(batch.schema == plan.arrow_schema for batch in batches)
    assert sum(batch.num_rows for batch in batches) == plan.rows == sum(rows for _, _, rows in plan.splits)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@settings(max_examples=150, deadline=None)
@given(histories(), st.integers(1, 4), st.integers(0, 6), st.integers(1, 5))
def test_net_leaves_the_last_row_of_each_key(history: list[list[Change]], splits: int, skipped: int, cuts: int) -> None:
    """One row a key is left after inserts, chains of changed keys, deletes and re-inserts; `after` cuts exactly."""
    log = written(history, KEYED, [0, 1])
    ends = [end for end, event in log.events if event[4] == 16]
    after = EntryPosition("mysql-bin.000001", ends[skipped - 1]).version() if 0 < skipped <= len(ends) else None
    kept = [change for transaction in history[skipped if after else 0 :] for change in transaction]
    model: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for _, old, new in kept:
        if old is not None:
            model[old[:2]] = (*old[:2], None, 2)
        if new is not None:
            model[new[:2]] = (*new, 1)
    slices, registry = slices_of(log, cuts)
    if not any(history):
        with pytest.raises(SchemaError):
            plan_net(slices, registry, "shop.t")
        return

    found = rows_of(slices, registry, after, splits)
    plan = plan_net(slices, registry, "shop.t", after, splits)

    assert sorted(found, key=repr) == sorted(model.values(), key=repr)
    assert (plan.upserts, plan.deletes) == (
        sum(row[-1] == 1 for row in model.values()),
        sum(row[-1] == 2 for row in model.values()),
    )
    raw = Counter(kind for kind, _, _ in kept)
    assert (plan.raw_inserts, plan.raw_updates, plan.raw_deletes) == (raw["insert"], raw["update"], raw["delete"])
    if plan.insert_only:
        first: dict[tuple[Any, ...], str] = {}
        for kind, old, new in kept:
            for row in (old, new):
                if row is not None:
                    first.setdefault(row[:2], kind)
        assert plan.deletes == 0
        assert set(first.values()) <= {"insert"}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.tuples(VALUES, st.sampled_from([None, "", "x", "xy"])), min_size=1, max_size=4), max_size=6)
)
def test_without_a_key_distinct_rows_are_counted(pairs: list[list[tuple[Any, Any]]]) -> None:
    """Each distinct row has the sum of its inserts and deletes; a sum of zero is left out."""
    columns = [("v", 3, b""), ("s", 15, b"\x14\x00")]
    history: list[list[Change]] = [[("insert", None, (7, "seed"))]]
    for rows in pairs:
        old, new = rows[0], rows[-1]
        one: Change = {1: ("insert", None, new), 2: ("delete", old, None)}.get(len(rows), ("update", old, new))
        history.append([one])
    model: Counter[tuple[Any, ...]] = Counter()
    for transaction in history:
        for _, before, after in transaction:
            if before is not None:
                model[before] -= 1
            if after is not None:
                model[after] += 1
    slices, registry = slices_of(written(history, columns, []), 3)

    found = rows_of(slices, registry, None, 2)

    assert sorted(found, key=repr) == sorted(((*row, count) for row, count in model.items() if count), key=repr)


def test_bounds_of_a_single_integer_key() -> None:
    """The least and the greatest key include deletes."""
    history: list[list[Change]] = [
        [("insert", None, (-5, "a")), ("delete", (900, "b"), None), ("insert", None, (7, "c"))]
    ]
    slices, registry = slices_of(written(history, ONE_KEY, [0]))

    plan = plan_net(slices, registry, "shop.t")

    assert (plan.min_key, plan.max_key) == (-5, 900)
    assert not plan.insert_only


def test_inserts_alone_are_known_as_such() -> None:
    """An insert that is updated later is still an insert; a changed key is not."""
    inserts: list[list[Change]] = [[("insert", None, (1, "a"))], [("update", (1, "a"), (1, "b"))]]
    moved: list[list[Change]] = [[("insert", None, (1, "a"))], [("update", (1, "a"), (2, "b"))]]

    plans = [plan_net(*slices_of(written(history, ONE_KEY, [0])), "shop.t") for history in (inserts, moved)]

    assert [plan.insert_only for plan in plans] == [True, False]


@pytest.mark.parametrize(("code", "meta"), [(5, b"\x08"), (4, b"\x04")])
def test_zeros_of_both_signs_are_one_key_and_two_rows(code: int, meta: bytes) -> None:
    """As a key, -0.0 is 0.0: one upsert, with the sign of the last row. Without a key, they are two distinct rows."""
    columns = [("k", code, meta), ("v", 3, b"")]
    history: list[list[Change]] = [[("update", (0.0, 1), (-0.0, 1)), ("update", (2.5, 1), (-2.5, 1))]]

    keyed = rows_of(*slices_of(written(history, columns, [0])), None, 1)
    keyless = rows_of(*slices_of(written(history, columns, [])), None, 1)

    assert [str(row) for row in keyed] == ["(-0.0, 1, 1)", "(2.5, None, 2)", "(-2.5, 1, 1)"]
    assert sorted(map(str, keyless)) == ["(-0.0, 1, 1)", "(-2.5, 1, 1)", "(0.0, 1, -1)", "(2.5, 1, -1)"]


def test_a_zero_date_in_the_key_stops_its_table() -> None:
    """As NULL no statement would find the row again. Outside the key it becomes NULL."""
    columns = [("d", 10, b""), ("e", 10, b"")]
    history: list[list[Change]] = [[("insert", None, (b"\x21\xd0\x0f", bytes(3)))], [("insert", None, (bytes(3),) * 2)]]
    slices, registry = slices_of(written(history, columns, [0]))

    plan = plan_net(slices, registry, "shop.t")

    with pytest.raises(TableStopped, match=r"shop.t.d of the primary key has a zero or partial date"):
        list(read(plan, 0, "null"))
    slices, registry = slices_of(written(history[:1], columns, [0]))
    (batch,) = read(plan_net(slices, registry, "shop.t"), 0, "null")
    assert batch.to_pylist() == [{"d": date(2024, 1, 1), "e": None, "_sluice_op": 1}]


def test_a_plan_counts_the_keys_that_are_gained_and_lost() -> None:
    """By each key's first and last image: what was there before the range, and what is there after it."""
    history: list[list[Change]] = [
        [("insert", None, (1, "a")), ("insert", None, (2, "a")), ("delete", (2, "a"), None)],
        [("update", (3, "a"), (3, "b")), ("update", (4, "a"), (5, "a")), ("delete", (6, "a"), None)],
        [("delete", (7, "a"), None), ("insert", None, (7, "b"))],
    ]

    plan = plan_net(*slices_of(written(history, ONE_KEY, [0])), "shop.t")

    assert (plan.upserts, plan.deletes, plan.gained, plan.lost) == (4, 3, 2, 2)
    assert (plan.replaced, plan.moved, plan.lacking) == (1, 0, False)


def test_a_plan_counts_the_keys_that_got_another_row() -> None:
    """By a delete and an insert, or from another row's key; not a row that stays, or a key that had none before."""
    history: list[list[Change]] = [
        [("delete", (1, "a"), None), ("insert", None, (1, "b")), ("update", (1, "b"), (1, "c"))],
        [("update", (2, "a"), (9, "a")), ("update", (3, "a"), (2, "a")), ("update", (9, "a"), (3, "a"))],
        [("update", (4, "a"), (4, "b")), ("insert", None, (5, "a")), ("update", (6, "a"), (7, "a"))],
        [("delete", (8, "a"), None), ("insert", None, (8, "b")), ("delete", (8, "b"), None)],
    ]

    plan = plan_net(*slices_of(written(history, ONE_KEY, [0])), "shop.t")

    assert (plan.replaced, plan.gained, plan.lost) == (3, 2, 2)


def test_changes_hands_out_every_image_in_order() -> None:
    """All images come with place and time; splits join without gap or overlap."""
    history: list[list[Change]] = [
        [("insert", None, (1, "a"))],
        [("update", (1, "a"), (2, "b"))],
        [("delete", (2, "b"), None)],
    ]
    slices, registry = slices_of(written(history, ONE_KEY, [0]))
    plan = plan_changes(slices, registry, "shop.t", None, 3)

    rows = [row for split in range(len(plan.splits)) for batch in read(plan, split) for row in batch.to_pylist()]

    assert [(row["id"], row["_sluice_op"]) for row in rows] == [
        (1, "insert"), (1, "update_before"), (2, "update_after"), (2, "delete"),
    ]  # fmt: skip
    positions = [row["_sluice_position"] for row in rows]
    assert positions == sorted(positions)
    assert {row["_sluice_journal"] for row in rows} == {1}
    assert plan.to_dict()["raw_updates"] == 1


def test_a_range_without_the_table_is_an_error() -> None:
    """A table of the claim that the range lacks is an error."""
    slices, registry = slices_of(written([[("insert", None, (1, "a"))]], ONE_KEY, [0]))

    with pytest.raises(SchemaError, match="no rows of this table"):
        plan_net(slices, registry, "shop.other")


def test_large_and_many_blocks_are_cut_into_batches() -> None:
    """More rows than a batch holds come in several, and none is lost."""
    log = Log()
    body = table_map_body("t", ONE_KEY, [0])
    for start in range(0, 150_000, 50_000):
        log.query("BEGIN")
        log.table_map(1, body)
        log.rows(30, 1, 2, b"".join(image(ONE_KEY, (n, "x")) for n in range(start, start + 50_000)))
        log.add(16, bytes(8))
    one: Block = log.block()
    slices, registry = slices_of(log)
    assert one.nbytes > 0
    plan = plan_net(slices, registry, "shop.t", None, 2)

    batches = [batch for split in range(2) for batch in read(plan, split)]

    assert sorted(value for batch in batches for value in batch.column("id").to_pylist()) == list(range(150_000))
    assert max(batch.num_rows for batch in batches) <= 65536

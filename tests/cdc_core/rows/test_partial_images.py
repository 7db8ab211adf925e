"""Partial images: what is handed out of them gives whole rows, against a model of dictionaries."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from cdc_core.errors import DecodeError, TableStopped
from cdc_core.rows.net import plan_changes, plan_net, read
from tests.support.annotated import slices_of
from tests.support.binlog_files import Log, image, table_map_body

KEYED = [("id", 8, b""), ("a", 3, b""), ("b", 15, b"\x14\x00"), ("c", 3, b"")]
DEFAULTS = {"a": 5, "b": "new", "c": None}
Row = dict[str, Any]
Change = tuple[int, Row, Row]  # rows event, before image, after image: of what each has


def written(history: list[Change], key: list[int]) -> Log:
    log = Log()
    names = [name for name, _, _ in KEYED]
    for number, (kind, *images) in enumerate(history):
        log.query("BEGIN")
        log.table_map(number + 1, table_map_body("t", KEYED, key))
        used = {30: images[1:], 32: images[:1]}.get(kind, images)
        masks = b"".join(bytes([sum(1 << i for i, name in enumerate(names) if name in one)]) for one in used)
        rows = b"".join(
            image([column for column in KEYED if column[0] in one], tuple(one[name] for name in names if name in one))
            for one in used
        )
        log.add(kind, (number + 1).to_bytes(6, "little") + b"\1\0\2\0\4" + masks + rows)
        log.add(16, bytes(8))
    return log


def handed_out(log: Log, splits: int) -> list[Row]:
    slices, registry = slices_of(log, 3)
    plan = plan_net(slices, registry, "shop.t", None, splits)
    batches = [batch for split in range(len(plan.splits)) for batch in read(plan, split)]
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == plan.arrow_schema
    assert plan.partial
    return [row for batch in batches for row in batch.to_pylist()]


def applied(lake: dict[int, Row], rows: list[Row]) -> dict[int, Row]:
    """What the merge makes of it."""
    of_row: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        of_row[row["_sluice_group"]].append(row)
    gone = of_row.pop(-1, [])
    left = {row["id"] for row in gone} | {
        row["id"] for rows in of_row.values() for row in rows if row["_sluice_op"] == 3
    }
    merged = {}
    for images in of_row.values():
        images.sort(key=lambda row: row["_sluice_sequence"])
        whole: Row = dict.fromkeys(DEFAULTS)
        if images[0]["_sluice_op"] == 3:
            whole = dict(lake[images[0]["id"]])
        elif images[0]["_sluice_op"] == 4:
            whole = dict(DEFAULTS)
        for one in images[images[0]["_sluice_op"] == 3 :]:
            whole |= {name: one[name]["value"] for name in DEFAULTS if one[name] is not None} | {"id": one["id"]}
        merged[whole["id"]] = whole
    kept = {key: row for key, row in lake.items() if key not in left}
    return kept | merged


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, Row], list[Change], dict[int, Row]]:
    """The rows before, what a server writes with a minimal image (or a whole one here and there), the rows after."""
    values = {"a": st.integers(0, 3) | st.none(), "b": st.sampled_from(["x", "yy", None]), "c": st.integers(0, 3)}
    rows = draw(st.dictionaries(st.integers(0, 3), st.fixed_dictionaries(values), max_size=3))
    table: dict[int, Row] = {key: row | {"id": key} for key, row in rows.items()}
    before, history = {key: dict(row) for key, row in table.items()}, []
    for _ in range(draw(st.integers(1, 12))):
        key = draw(st.integers(0, 4))
        given = draw(st.fixed_dictionaries({}, optional=values))
        if not table or (key not in table and draw(st.booleans())):
            table[key] = DEFAULTS | given | {"id": key}
            history.append((30, {}, given | {"id": key}))
            continue
        old = draw(st.sampled_from(sorted(table)))
        if draw(st.integers(0, 3)) == 0:
            del table[old]
            history.append((32, {"id": old}, {}))
            continue
        moved = {"id": key} if key not in table and draw(st.booleans()) else {}
        row = table.pop(old)
        new = row | given | moved
        table[new["id"]] = new
        whole = draw(st.integers(0, 3)) == 0
        history.append((31, {"id": old} | (row if whole else {}), new if whole else given | moved))
    return before, history, table


@settings(max_examples=200, deadline=None)
@given(histories(), st.integers(1, 4))
def test_rows_are_made_whole(told: tuple[dict[int, Row], list[Change], dict[int, Row]], splits: int) -> None:
    """The image, the lake and the defaults together give the rows of the source."""
    before, history, after = told
    lacking: Change = (31, {"id": 99}, {"a": 1})  # so that the range is a partial one whatever was drawn
    before |= {99: {"id": 99, "a": 0, "b": "z", "c": 7}}

    found = applied(before, handed_out(written([*history, lacking], [0]), splits))

    assert found == after | {99: before[99] | {"a": 1}}


def test_counts_are_those_of_rows() -> None:
    """The counts are of keys left and keys gone, however many images there are."""
    history: list[Change] = [
        (31, {"id": 1}, {"a": 1}),
        (31, {"id": 1}, {"b": "x"}),
        (31, {"id": 1}, {"id": 2}),
        (30, {}, {"id": 7}),
        (32, {"id": 4}, {}),
    ]
    slices, registry = slices_of(written(history, [0]))

    plan = plan_net(slices, registry, "shop.t")

    assert (plan.upserts, plan.deletes, plan.rows) == (2, 2, 7)
    assert (plan.raw_inserts, plan.raw_updates, plan.raw_deletes) == (1, 3, 1)
    assert (plan.min_key, plan.max_key, plan.insert_only) == (1, 7, False)


WHOLE = {"a": 1, "b": "x", "c": 2}


@pytest.mark.parametrize(
    ("history", "replaced", "moved"),
    [
        ([(31, {"id": 1}, {"a": 1})], 0, 0),
        ([(31, {"id": 1}, {"id": 2})], 0, 1),
        ([(31, {"id": 1}, {"id": 9}), (31, {"id": 2}, {"id": 1}), (31, {"id": 9}, {"id": 2})], 2, 2),
        ([(31, {"id": 1}, {"id": 9}), (31, {"id": 9}, {"id": 1})], 0, 0),
        ([(31, {"id": 1}, {"id": 4}), (32, {"id": 4}, {})], 0, 0),
        ([(30, {}, {"id": 1}), (31, {"id": 1}, {"id": 2})], 0, 0),
        ([(32, {"id": 1}, {}), (30, {}, {"id": 1})], 1, 0),
        ([(31, {"id": 1} | WHOLE, {"id": 2} | WHOLE)], 0, 0),
        ([(32, {"id": 2}, {}), (31, {"id": 1}, {"id": 9}), (31, {"id": 9} | WHOLE, {"id": 2} | WHOLE)], 1, 0),
        ([(31, {"id": 1}, {"a": 1}), (31, {"id": 1} | WHOLE, {"id": 1} | WHOLE), (31, {"id": 1}, {"id": 2})], 0, 0),
    ],
)
def test_rows_that_got_another_key_are_counted(history: list[Change], replaced: int, moved: int) -> None:
    """`replaced`: keys that had another row before. `moved`: rows whose values come from the lake's row of another key;
    not one that has its key again, is gone, was inserted, or was whole once."""
    lacking: Change = (31, {"id": 99}, {"a": 1})
    slices, registry = slices_of(written([*history, lacking], [0]))

    plan = plan_net(slices, registry, "shop.t")

    assert (plan.replaced, plan.moved, plan.partial, plan.lacking) == (replaced, moved, True, True)


def test_deletes_alone_leave_columns_out() -> None:
    """They need no group, but no image of the range says what was deleted."""
    slices, registry = slices_of(written([(32, {"id": 1}, {}), (30, {}, {"id": 1} | WHOLE)], [0]))

    plan = plan_net(slices, registry, "shop.t")

    assert (plan.partial, plan.lacking, plan.replaced) == (False, True, 1)


def test_without_a_key_every_image_is_handed_out() -> None:
    """The before image has all columns there; what an insert leaves out has its default."""
    whole = {"id": 1, "a": 2, "b": "x", "c": None}
    history: list[Change] = [(30, {}, {"id": 1}), (31, whole, {"a": 3}), (32, whole | {"a": 3}, {})]

    rows = handed_out(written(history, []), 2)

    counted: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        values = {name: row[name]["value"] if row[name] else DEFAULTS[name] for name in ("id", "a", "b", "c")}
        counted[tuple(values.values())] += row["_sluice_count"]
    assert {row: count for row, count in counted.items() if count} == {(1, 5, "new", None): 1, (1, 2, "x", None): -1}


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ([0], (31, {"a": 1}, {"b": "x"})),
        ([], (31, {"id": 1}, {"b": "x"})),
        ([], (32, {"id": 1}, {})),
    ],
)
def test_a_row_that_cannot_be_identified_stops_the_table(key: list[int], change: Change) -> None:
    """The key is missing, or any column of a table without one."""
    slices, registry = slices_of(written([change], key))

    with pytest.raises(TableStopped, match="lacks columns that identify its row") as stopped:
        plan_net(slices, registry, "shop.t")

    assert stopped.value.place.startswith("mysql-bin.000001:")


def test_mode_changes_has_no_place_for_them() -> None:
    """An absent value would be taken for NULL."""
    slices, registry = slices_of(written([(30, {}, {"id": 1})], [0]))

    with pytest.raises(DecodeError, match="lacks columns"):
        list(read(plan_changes(slices, registry, "shop.t")))

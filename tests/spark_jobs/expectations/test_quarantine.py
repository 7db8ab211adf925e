"""What a batch makes of a quarantine: rows that come, end, are replaced, and outlive changes of their table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from spark_jobs.changes import columns as log
from spark_jobs.expectations.quarantine import (
    BATCH,
    EPOCH,
    OP,
    PLACE,
    SYSTEM,
    VERSION,
    BatchEnd,
    after_batch,
    bad_rows,
    by_check,
    counting,
)
from spark_jobs.expectations.row_judge import CHECK, REASON

IMAGES = pa.schema(
    [("id", pa.int64()), ("n", pa.int32())]
    + [
        log.SYSTEM.field(name)
        for name in (log.OP, log.JOURNAL, log.POSITION, log.TIME, log.EPOCH, log.VERSION, log.NTH)
    ]
)


FIRST = BatchEnd(1, 0, 100)


def images(*rows: tuple[int, int, str]) -> pa.Table:
    """Images in order, each of one position."""
    made = [(key, n, op, 1, 100 + at, at, 0, 0, at) for at, (key, n, op) in enumerate(rows)]
    return pa.Table.from_arrays(
        [pa.array([row[i] for row in made], field.type) for i, field in enumerate(IMAGES)], schema=IMAGES
    )


def failed(*keys: int) -> pa.Table:
    said = {CHECK: ["range_n"] * len(keys), REASON: [f"{key} is bad" for key in keys]}
    return pa.table({"id": pa.array(keys, pa.int64()), **said})


def waiting(*rows: tuple[int, int], end: BatchEnd = FIRST) -> pa.Table:
    some = images(*((key, n, log.INSERT) for key, n in rows))
    return bad_rows(some, failed(*(key for key, _ in rows)), ["id", "n"], ["id"], end)


def keyed(rows: pa.Table) -> dict[int, Any]:
    return dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))


def test_a_row_waits_as_it_came() -> None:
    """Its last image of the batch, with its change, its place, the reason and the batch; others are left."""
    some = images((1, 5, log.INSERT), (2, 6, log.INSERT), (1, 5, log.UPDATE_BEFORE), (1, 7, log.UPDATE_AFTER))
    found = bad_rows(some, failed(3, 1), ["id", "n"], ["id"], BatchEnd(9, 2, 400))
    assert found.schema == pa.schema([IMAGES.field("id"), IMAGES.field("n"), *SYSTEM])
    (row,) = found.to_pylist()
    assert (row["id"], row["n"], row[OP], row[PLACE], row[REASON]) == (1, 7, "update", "1:103", "1 is bad")
    assert (row[BATCH], row[EPOCH], row[VERSION]) == (9, 2, 400)


def test_later_changes_of_a_key_end_its_row_or_replace_it() -> None:
    """A row that passes or is deleted ends the one that waits; one that fails takes its place."""
    before = waiting((1, 5), (2, 6), (3, 7), (4, 8))
    after = after_batch(before, failed(1, 2).select(["id"]), waiting((3, 70)), ["id"])
    assert keyed(after) == {3: 70, 4: 8}
    assert by_check(after) == Counter(range_n=2)
    assert keyed(after_batch(None, None, waiting((3, 70)), ["id"])) == {3: 70}


def test_a_batch_that_comes_again_makes_the_same() -> None:
    """Also with other boundaries: only the last row of a key counts."""
    bad = waiting((1, 5), (2, 6))
    once = after_batch(waiting((1, 4), (9, 9)), failed(1, 2).select(["id"]), bad, ["id"])
    assert keyed(after_batch(once, failed(1, 2).select(["id"]), bad, ["id"])) == keyed(once) == {9: 9, 1: 5, 2: 6}


def test_rows_outlive_changes_of_their_table() -> None:
    """A column that is new, gone or of another type: what was in it is kept, as text if it does not fit."""
    old = waiting((1, 5)).set_column(1, "n", pa.array(["many"])).append_column("gone", pa.array([1.5]))
    new = waiting((2, 6)).add_column(2, "more", pa.array(["x"]))
    after = after_batch(old, None, new, ["id"])
    assert after.column_names == ["id", "n", "more", "gone", *SYSTEM.names]
    rows = after.sort_by("id").select(["id", "n", "more", "gone"]).to_pylist()
    assert rows == [
        {"id": 1, "n": "many", "more": None, "gone": 1.5},
        {"id": 2, "n": "6", "more": "x", "gone": None},
    ]


def test_rows_from_before_a_copy_do_not_count() -> None:
    """The table has what the source had then; later batches of that epoch, and later epochs, count."""
    every = [waiting((at, 0), end=BatchEnd(1, epoch, 100 + at)) for at, epoch in ((1, 0), (2, 1), (3, 1), (4, 2))]
    rows = pa.concat_tables(every)
    assert list(keyed(counting(rows, (1, 102)))) == [3, 4]
    assert list(keyed(counting(rows, None))) == [1, 2, 3, 4]

"""The rows of a table that wait because they failed an expectation: what a batch makes of them. Pure, in Arrow.

A key is there once, with its row of the last batch that changed it. A row that passes ends it, and so does a delete. So
it is the same however the changes are cut into batches, and whenever a batch is tried again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.changes import columns as log
from spark_jobs.changes.in_order import in_order
from spark_jobs.changes.keys import is_among, key_codes, without_keys
from spark_jobs.expectations.row_judge import CHECK, REASON

OP, PLACE, TIME = "_sluice_op", "_sluice_position", "_sluice_time"
BATCH, EPOCH, VERSION = "_sluice_batch", "_sluice_epoch", "_sluice_version"
LACKS = "_sluice_lacks"
SYSTEM = pa.schema(
    [
        (OP, pa.string()),  # of the row's last change
        (PLACE, pa.string()),  # of its event's end: journal and offset
        (TIME, pa.timestamp("us", "UTC")),  # when the source executed it
        (CHECK, pa.string()),
        (REASON, pa.string()),
        (BATCH, pa.int64()),
        (EPOCH, pa.int32()),
        (VERSION, pa.int64()),  # of the end of the batch
        (LACKS, pa.string()),  # columns that came after the row, which it has no values for: a list in JSON, or NULL
    ]
)
_OPS = {log.INSERT: "insert", log.UPDATE_AFTER: "update"}


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end of a batch: its number, None for a part of a log, and epoch and version."""

    number: int | None
    epoch: int
    version: int


def bad_rows(images: pa.Table, failed: pa.Table, columns: Sequence[str], key: Sequence[str], end: BatchEnd) -> pa.Table:
    """Returns the rows of the quarantine for the `failed` keys of a batch, which `RowJudge.failed` has with their
    reasons: the last image of each, with the columns of `SYSTEM`. `images` are those of the batch, in the form of a
    log."""
    some = images.filter(pa.array(is_among(images.select(list(key)), failed)))
    found = in_order(some, key)
    if found is None or not len(found.order):
        return _empty(images, columns)
    last = some.take(pa.array(found.order[found.last]))
    said = failed.take(pa.array(_places(last.select(list(key)), failed)))
    count = last.num_rows
    made = {
        OP: pa.array([_OPS.get(op, op) for op in last[log.OP].to_pylist()], pa.string()),
        PLACE: pc.binary_join_element_wise(*(last[one].cast(pa.string()) for one in (log.JOURNAL, log.POSITION)), ":"),
        TIME: last[log.TIME],
        CHECK: said[CHECK],
        REASON: said[REASON],
        BATCH: pa.array([end.number] * count, pa.int64()),
        EPOCH: pa.array([end.epoch] * count, pa.int32()),
        VERSION: pa.array([end.version] * count, pa.int64()),
        LACKS: pa.nulls(count, pa.string()),
    }
    own = [last.schema.field(name) for name in columns]
    arrays = [*(last[name] for name in columns), *(made[field.name].cast(field.type) for field in SYSTEM)]
    return pa.Table.from_arrays(arrays, schema=pa.schema([*own, *SYSTEM]))


def after_batch(before: pa.Table | None, ended: pa.Table | None, bad: pa.Table, key: Sequence[str]) -> pa.Table:
    """Returns the quarantine after a batch: the rows that it had, without the keys that `ended`, and the batch's `bad`
    rows, which take the place of earlier ones. It has the columns of `bad`, and earlier ones that only it has."""
    if before is None or not before.num_rows:
        return bad
    left = without_keys(without_keys(before, ended), bad.select(list(key)))
    if not left.num_rows:
        return bad
    kinds = {field.name: field.type for field in bad.schema}
    gone = [field for field in left.schema if field.name not in kinds and field.name not in SYSTEM.names]
    names = [*(name for name in bad.column_names if name not in SYSTEM.names), *(field.name for field in gone)]
    left, columns = _lacking(left, [name for name in names if name not in left.column_names]), {}
    for name in [*names, *SYSTEM.names]:
        old, new = _column(left, name, bad), _column(bad, name, left)
        columns[name] = pa.chunked_array(_alike(old, new))
    return pa.table(columns)


def lacks(rows: pa.Table) -> list[set[str]]:
    """Returns, for each row, the columns of its quarantine that came after it."""
    return [set(json.loads(text or "[]")) for text in rows[LACKS].to_pylist()]


def _lacking(rows: pa.Table, names: Collection[str]) -> pa.Table:
    """Returns the rows with the note that they lack these columns too."""
    if not names:
        return rows
    noted = pa.array([json.dumps(sorted(known.union(names))) for known in lacks(rows)], pa.string())
    return rows.set_column(rows.schema.get_field_index(LACKS), LACKS, noted)


def by_check(rows: pa.Table) -> Counter[str]:
    """Returns how many rows failed each check; a row may have failed several."""
    return Counter(name for names in rows[CHECK].to_pylist() for name in names.split(", "))


def counting(rows: pa.Table, base: tuple[int, int] | None) -> pa.Table:
    """Returns the rows that are after `base`, epoch and version of a copy or a statement from which the table began
    anew."""
    if base is None:
        return rows
    epoch, version = rows[EPOCH], rows[VERSION]
    same = pc.and_(pc.equal(epoch, base[0]), pc.greater(version, base[1]))
    return rows.filter(pc.or_(pc.greater(epoch, base[0]), same))


def _column(rows: pa.Table, name: str, other: pa.Table) -> pa.ChunkedArray:
    if name in rows.column_names:
        return rows.column(name)
    return pa.chunked_array([pa.nulls(rows.num_rows, other.column(name).type)])


def _alike(old: pa.ChunkedArray, new: pa.ChunkedArray) -> list[pa.Array]:
    """Returns the chunks of both in one type: the new one's if the old values fit it, otherwise text."""
    if old.type != new.type:
        try:
            old = old.cast(new.type)
        except pa.ArrowException:
            old, new = _as_text(old), _as_text(new)
    return [*old.chunks, *new.chunks]


def _as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return values.cast(pa.string())
    except pa.ArrowException:
        texts = [None if one is None else str(one) for one in values.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


def _places(keys: pa.Table, among: pa.Table) -> np.ndarray:
    """Returns the place of each key among others, which have each of them once."""
    both = pa.concat_tables([keys, among.select(keys.column_names).cast(keys.schema)])
    codes = key_codes(both)
    place = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    place[codes[keys.num_rows :]] = np.arange(among.num_rows)
    found: np.ndarray = place[codes[: keys.num_rows]]
    return found


def _empty(images: pa.Table, columns: Sequence[str]) -> pa.Table:
    return pa.schema([*(images.schema.field(name) for name in columns), *SYSTEM]).empty_table()

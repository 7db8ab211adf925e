"""A plan's splits as Arrow, in bounded batches: each split any number of times while the plan lives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.binlog.columns import json_diff
from cdc_core.binlog.columns.batch import decode
from cdc_core.binlog.columns.kernel import Cells, ZeroDates, numbers
from cdc_core.binlog.gather import CHUNK_IMAGES, EVERY, Chunk, Wanted
from cdc_core.binlog.images import DIFF
from cdc_core.binlog.net_kernels import blank, choose
from cdc_core.binlog.plan import Plan, TableRows
from cdc_core.binlog.rows import ABSENT, DELETE, UPDATE_BEFORE, RowImages
from cdc_core.binlog.system_columns import CHANGES, REMOVE, UPSERT, changes_columns, partial_columns, wrapped
from cdc_core.errors import DecodeError


def read(plan: Plan, split: int = 0, zero_dates: ZeroDates = "fail") -> Iterator[pa.RecordBatch]:
    """The batches of one split: at most 65,536 rows each, and about as many bytes as a chunk."""
    if not plan.splits:
        return
    low, high, _ = plan.splits[split]
    kept = None
    if plan.kept is not None:
        first, end = np.searchsorted(plan.kept, (low, high)).tolist()
        kept = plan.kept[first:end]
    source = TableRows(plan.schema, plan.slices, plan.schemas, plan.after, plan.layout)
    for chunk, images in source.chunks(Wanted(low, high, kept)):
        _refuse_partial(plan, images, chunk)
        chosen, ordinals = _chosen(chunk, images, low, high, kept)
        for at in range(0, len(chosen), CHUNK_IMAGES):
            part = slice(at, at + CHUNK_IMAGES)
            yield _batch(plan, chunk, images, chosen[part], ordinals[part], zero_dates)


def _chosen(
    chunk: Chunk, images: RowImages, low: int, high: int, kept: npt.NDArray[np.int64] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Which of a chunk's images are handed out, and their ordinals."""
    left = EVERY if kept is None else kept[np.searchsorted(kept, chunk.ordinals[0]) :]
    chosen, ordinals = np.empty(len(images), np.int64), np.empty(len(images), np.int64)
    count = choose(images.event, chunk.ordinals, low, high, left, kept is None, chosen, ordinals)
    return chosen[:count], ordinals[:count]


def _batch(
    plan: Plan,
    chunk: Chunk,
    images: RowImages,
    chosen: npt.NDArray[np.int64],
    ordinals: npt.NDArray[np.int64],
    zero_dates: ZeroDates,
) -> pa.RecordBatch:
    starts = images.starts if len(chosen) == len(images) else np.ascontiguousarray(images.starts[:, chosen])
    diffs = list(_diffs(plan, chunk, images, chosen)) if images.diffs else []
    op, event = images.op[chosen], images.event[chosen]
    absent = starts == ABSENT if plan.partial else None
    if plan.mode == CHANGES:
        extra = changes_columns(chunk, op, event, images.row[chosen])
    elif plan.groups is not None and plan.kept is not None:
        extra = partial_columns(op, plan.groups[np.searchsorted(plan.kept, ordinals)], ordinals)
    elif not plan.schema.primary_key:
        extra = [numbers(_copies(plan, op, ordinals))]
    else:
        blank(starts, op, _keys(plan))
        extra = [numbers(np.where((op == DELETE) | (op == UPDATE_BEFORE), REMOVE, UPSERT).astype(np.int8))]
    batch = decode(plan.schema, chunk.data, starts, zero_dates=zero_dates, place=lambda i: chunk.place(int(event[i])))
    columns = batch.columns
    for column, rows, texts in diffs:
        columns[column] = json_diff.patched(columns[column], rows, texts)
    if absent is not None:
        columns = _wrapped(plan, columns, absent, op)
    return pa.RecordBatch.from_arrays(columns + extra, schema=plan.arrow_schema)


def _diffs(
    plan: Plan, chunk: Chunk, images: RowImages, chosen: npt.NDArray[np.int64]
) -> Iterator[tuple[int, list[int], list[str]]]:
    """Columns with documents of which the log has what changed: the column, the rows, their whole text."""
    for column, own in enumerate(images.starts):
        rows = np.flatnonzero(own[chosen] <= DIFF)
        if len(rows):
            at = chosen[rows]
            place = lambda i, at=at: chunk.place(int(images.event[at[i]]))  # noqa: E731
            cells = Cells(plan.schema.name, plan.schema.columns[column], chunk.data, DIFF - own[at], place=place)
            yield column, rows.tolist(), json_diff.documents(cells, own[at - 1])


def _keys(plan: Plan) -> npt.NDArray[np.bool_]:
    return np.array([column.name in plan.schema.primary_key for column in plan.schema.columns])


def _copies(plan: Plan, op: npt.NDArray[np.uint8], ordinals: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    if plan.copies is not None and plan.kept is not None:
        return plan.copies[np.searchsorted(plan.kept, ordinals)]
    return np.where((op == DELETE) | (op == UPDATE_BEFORE), -1, 1)


def _wrapped(
    plan: Plan, columns: list[pa.Array], absent: npt.NDArray[np.bool_], op: npt.NDArray[np.uint8]
) -> list[pa.Array]:
    """What images leave out is absent, not NULL; of old images of a table with a key only the key counts."""
    old = (op == DELETE) | (op == UPDATE_BEFORE) if plan.schema.primary_key else np.zeros(len(op), np.bool_)
    return [
        values if key else wrapped(values, ~(gone | old))
        for values, gone, key in zip(columns, absent, _keys(plan), strict=True)
    ]


def _refuse_partial(plan: Plan, images: RowImages, chunk: Chunk) -> None:
    if plan.mode == CHANGES and not (images.new_full and images.old_full):
        raise DecodeError(
            f"a row image of {plan.schema.name} leaves out columns, and mode changes has no place for that",
            place=chunk.place(0),
            hint="Read in mode net, or SET GLOBAL binlog_row_image=FULL (sessions may override it).",
        )

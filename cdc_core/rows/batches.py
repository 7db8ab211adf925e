"""A plan's splits as Arrow record batches. A split can be read any number of times while the plan lives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_core.binlog.row_image import ABSENT, DIFF
from cdc_core.compiled.kernel import Longs
from cdc_core.errors import DecodeError, TableStopped
from cdc_core.rows.chunk_kernels import CHUNK_IMAGES, Wanted
from cdc_core.rows.chunks import Chunk
from cdc_core.rows.columns import json_diff
from cdc_core.rows.columns.arrays import numbers
from cdc_core.rows.columns.batch import Patch, decode
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.images import RowImages
from cdc_core.rows.net_kernels import blank, choose
from cdc_core.rows.plan import RowsPlan
from cdc_core.rows.system_columns import (
    CHANGES,
    LACKS_COLUMNS,
    REMOVE,
    UPSERT,
    changes_columns,
    optional,
    partial_columns,
)
from cdc_core.rows.table_rows import TableRows
from cdc_core.schema.column_rule import ZeroDates


def read(plan: RowsPlan, split: int = 0, zero_dates: ZeroDates = "fail") -> Iterator[pa.RecordBatch]:
    """The batches of one split: at most 65,536 rows each, and about as many bytes as a chunk. Raises DecodeError for
    damaged or refused values."""
    if not plan.splits:
        return
    low, high, _ = plan.splits[split]
    wanted = Wanted(low, high)
    if plan.kept is not None:
        first, end = np.searchsorted(plan.kept, (low, high)).tolist()
        wanted = Wanted(low, high, plan.kept[first:end], every=False)
    source = TableRows(plan.schema, plan.slices, plan.schemas, plan.after, plan.layout, where=plan.schema.where)
    for chunk, images in source.chunks(wanted):
        if plan.mode == CHANGES and not (images.new_full and images.old_full):
            raise _lacks_columns(plan, chunk, images)
        chosen, ordinals = _chosen(chunk, images, wanted)
        for at in range(0, len(chosen), CHUNK_IMAGES):
            part = slice(at, at + CHUNK_IMAGES)
            yield _batch(plan, chunk, images, chosen[part], ordinals[part], zero_dates)


def _chosen(chunk: Chunk, images: RowImages, wanted: Wanted) -> tuple[Longs, Longs]:
    """Which images of a chunk are handed out, and their ordinals."""
    if not wanted.every:
        wanted = wanted._replace(kept=wanted.kept[np.searchsorted(wanted.kept, chunk.ordinals[0]) :])
    chosen, ordinals = np.empty(len(images), np.int64), np.empty(len(images), np.int64)
    count = choose(images.event, chunk.ordinals, wanted, chosen, ordinals)
    return chosen[:count], ordinals[:count]


def _batch(
    plan: RowsPlan, chunk: Chunk, images: RowImages, chosen: Longs, ordinals: Longs, zero_dates: ZeroDates
) -> pa.RecordBatch:
    starts = images.starts if len(chosen) == len(images) else np.ascontiguousarray(images.starts[:, chosen])
    patches = dict(_patches(plan, chunk, images, chosen)) if images.diffs else None
    op, event, old = images.op[chosen], images.event[chosen], images.is_old()[chosen]
    absent, keys_alone = starts == ABSENT if plan.partial else None, None
    if plan.mode == CHANGES:
        extra = changes_columns(chunk, op, event, images.row[chosen])
    elif plan.groups is not None and plan.kept is not None:
        extra = partial_columns(op, plan.groups[np.searchsorted(plan.kept, ordinals)], ordinals)
    elif not plan.schema.primary_key:
        extra = [numbers(_copies(plan, old, ordinals))]
    else:
        blank(starts, op, _keys(plan))
        keys_alone = old
        extra = [numbers(np.where(old, REMOVE, UPSERT).astype(np.int8))]
    place = lambda i: chunk.place(int(event[i]))  # noqa: E731
    columns = decode(
        plan.schema, chunk.data, starts, zero_dates=zero_dates, place=place, patches=patches, blank=keys_alone
    ).columns
    if plan.mode != CHANGES:
        _check_key(plan, chunk, event, columns)
    if absent is not None:
        columns = _optional(plan, columns, absent, old)
    return pa.RecordBatch.from_arrays(columns + extra, schema=plan.arrow_schema)


def _patches(plan: RowsPlan, chunk: Chunk, images: RowImages, chosen: Longs) -> Iterator[tuple[int, Patch]]:
    """The JSON documents of which only the changes are logged, by the column's number."""
    for column, own in enumerate(images.starts):
        rows = np.flatnonzero(own[chosen] <= DIFF)
        if len(rows) and not plan.schema.columns[column].hidden:
            at = chosen[rows]
            place = lambda i, at=at: chunk.place(int(images.event[at[i]]))  # noqa: E731
            cells = Cells(plan.schema.name, plan.schema.columns[column], chunk.data, DIFF - own[at], place=place)
            yield column, (rows.tolist(), json_diff.documents(cells, own[at - 1]))


def _check_key(plan: RowsPlan, chunk: Chunk, event: npt.NDArray[np.int32], columns: list[pa.Array]) -> None:
    """Raises TableStopped for a key that is NULL: no row would ever be found by it."""
    for values, column in zip(columns, plan.schema.shown, strict=True):
        if column.name in plan.schema.primary_key and values.null_count:
            row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise TableStopped(
                f"{plan.schema.name}.{column.name} of the primary key has a zero or partial date, which becomes NULL",
                place=chunk.place(int(event[row])),
                hint="Set sluice.zero.dates to string, or correct the row; then reload the table (sluice copy).",
            )


def _keys(plan: RowsPlan) -> npt.NDArray[np.bool_]:
    """Which columns belong to the key."""
    return np.array([column.name in plan.schema.primary_key for column in plan.schema.stored])


def _copies(plan: RowsPlan, old: npt.NDArray[np.bool_], ordinals: Longs) -> Longs:
    if plan.copies is not None and plan.kept is not None:
        return plan.copies[np.searchsorted(plan.kept, ordinals)]
    return np.where(old, -1, 1)


def _optional(
    plan: RowsPlan, columns: list[pa.Array], absent: npt.NDArray[np.bool_], old: npt.NDArray[np.bool_]
) -> list[pa.Array]:
    """Return columns outside the key that distinguish absent values from NULL. Of old images in a table with a key,
    only the key counts."""
    blanked = old if plan.schema.primary_key else np.zeros(len(old), np.bool_)
    shown = np.array([not column.hidden for column in plan.schema.columns])
    return [
        values if key else optional(values, ~(gone | blanked))
        for values, gone, key in zip(columns, absent[shown], _keys(plan)[shown], strict=True)
    ]


def _lacks_columns(plan: RowsPlan, chunk: Chunk, images: RowImages) -> DecodeError:
    image = int(images.lacking().argmax())
    return DecodeError(
        f"a row image of {plan.schema.name} {LACKS_COLUMNS}",
        place=chunk.place(int(images.event[image])),
        hint="Read in mode net, or SET GLOBAL binlog_row_image=FULL (sessions may override it).",
    )

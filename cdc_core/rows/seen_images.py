"""The images of a table of which a lake sees the rows that meet a condition.

An update that brings a row to meet it inserts the row, and one after which it does not deletes it. An image of a row
that does not meet it is nothing. So whoever finds net changes, counts or shows images knows of no condition.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.events import DELETE, INSERT, NOTHING, UPDATE_BEFORE
from cdc_core.errors import SchemaError, TableStopped
from cdc_core.rows.chunks import Chunk
from cdc_core.rows.columns.batch import decode
from cdc_core.rows.images import RowImages
from cdc_core.rules.conditions import Condition, condition
from cdc_core.schema.table import TableSchema

WHOLE_IMAGES = "SET GLOBAL binlog_row_image=FULL (sessions may override it); then reload the table (sluice copy)."


def seen_images(schema: TableSchema, where: str, chunk: Chunk, images: RowImages) -> RowImages:
    """The same images, with the operations that the lake sees. Raises TableStopped for images that leave columns out,
    and for columns that the condition is not for."""
    if not (images.new_full and images.old_full):
        image = int(images.lacking().argmax())
        raise TableStopped(
            f"a row image of {schema.name} lacks columns, and its rule has a condition",
            place=chunk.place(int(images.event[image])),
            hint=WHOLE_IMAGES,
        )
    meets = _meets(schema, condition(where), chunk, images)
    before = np.flatnonzero(images.op == UPDATE_BEFORE)
    was, now = meets[before], meets[before + 1]  # an update's images are next to each other
    op = np.where(meets, images.op, NOTHING).astype(np.uint8)
    op[before[was & ~now]] = DELETE
    op[before[now & ~was] + 1] = INSERT
    return replace(images, op=op)


def _meets(schema: TableSchema, asked: Condition, chunk: Chunk, images: RowImages) -> npt.NDArray[np.bool_]:
    """Which images have a row that meets the condition."""
    place = lambda image: chunk.place(int(images.event[image]))  # noqa: E731
    values = decode(_asked_alone(schema, asked), chunk.data, images.starts, place=place)
    columns = {name.lower(): values.column(name) for name in values.schema.names}
    try:
        return np.asarray(asked.holds(columns).to_numpy(zero_copy_only=False), np.bool_)
    except SchemaError as error:
        raise TableStopped(error.message, place=schema.name, hint=error.hint) from error


def _asked_alone(schema: TableSchema, asked: Condition) -> TableSchema:
    """The definition with the columns of the condition alone, as the source has them."""
    columns = (
        replace(one, name=one.source_name, rule=None, hidden=one.hidden or one.source_name.lower() not in asked.columns)
        for one in schema.stored
    )
    return replace(schema, columns=tuple(columns), primary_key=())

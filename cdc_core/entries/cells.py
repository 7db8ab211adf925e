"""The cells of one table's row images in a window: each column's texts, and what a kernel needs to write them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.events import UPDATE_AFTER, EventType
from cdc_core.binlog.row_image import DIFF, NULL
from cdc_core.compiled.kernel import Bytes, Longs
from cdc_core.entries import java_types
from cdc_core.entries.options import Options
from cdc_core.entries.texts import Texts, of_array, texts
from cdc_core.entries.wire import number, text
from cdc_core.rows.chunks import Chunk
from cdc_core.rows.columns import json_diff, json_text
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.images import RowImages
from cdc_core.schema.table import PRIMARY, TableSchema

OMITTED, NULLED, VALUED, BEYOND = range(4)  # the state of a cell
UPDATED = 4  # added to the state of a cell that an update changed


@dataclass(frozen=True, slots=True)
class TableCells:
    """All cells of a table's images. `state[column, image]`; the text of a cell is
    `data[ends[column, image]:ends[column, image + 1]]`. `fixed` has for each column the start of its Column message for
    a NULL, for a value and for an unsigned number beyond the signed range, and the message's end: `parts[column]` are
    the five places between them."""

    state: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]
    data: Bytes
    fixed: Bytes
    parts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Template:
    """What never changes of a table's columns. `shown` are the numbers of those that become cells."""

    schema: TableSchema
    shown: tuple[int, ...]
    fixed: Bytes
    parts: npt.NDArray[np.int64]


def template(schema: TableSchema, options: Options) -> Template:
    """Raises SchemaError for a column of a type that cannot be read."""
    key = schema.primary_key if schema.key_index == PRIMARY else ()
    shown = [
        i for i, column in enumerate(schema.columns) if not column.hidden and options.shows(schema.name, column.name)
    ]
    pieces: list[bytes] = []
    for i in shown:
        column = schema.columns[i]
        kinds = java_types.java_types(column)
        rest = text(3, column.name) + number(4, int(column.name in key))
        pieces += [number(1, i) + number(2, kind) + rest for kind in (kinds.null, kinds.value, kinds.beyond)]
        pieces.append(text(10, java_types.mysql_type(column)))
    ends = np.cumsum([0, *map(len, pieces)])
    parts = np.array([ends[4 * k : 4 * k + 5] for k in range(len(shown))], np.int64).reshape(len(shown), 5)
    return Template(schema, tuple(shown), np.frombuffer(b"".join(pieces), np.uint8), parts)


def cells(made: Template, chunk: Chunk, images: RowImages) -> TableCells:
    """Raises DecodeError for damaged values."""
    count = len(images)
    state, ends = np.empty((len(made.shown), count), np.uint8), np.empty((len(made.shown), count + 1), np.int64)
    pieces, size = [], 0
    for k, (i, found) in enumerate(_columns(made, chunk, images)):
        state[k] = _state(images, chunk, i, found)
        ends[k] = found.ends + size
        pieces.append(found.data[: found.ends[-1]])
        size += int(found.ends[-1])
    data = np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)
    return TableCells(state, ends, data, made.fixed, made.parts)


def _columns(made: Template, chunk: Chunk, images: RowImages) -> Iterator[tuple[int, Texts]]:
    for i in made.shown:
        own = np.ascontiguousarray(images.starts[i])
        column = Cells(
            made.schema.name, made.schema.columns[i], chunk.data, own, place=lambda j: chunk.place(int(images.event[j]))
        )
        changed = np.flatnonzero(own <= DIFF) if images.diffs else ()
        yield i, _documents(column, images.starts[i], np.asarray(changed)) if len(changed) else texts(column)


def _documents(column: Cells, starts: Longs, changed: npt.NDArray[np.int64]) -> Texts:
    """JSON documents of which some are logged as changes: the whole document all the same."""
    part = Cells(column.table, column.column, column.data, DIFF - starts[changed], place=column.place)
    whole = json_diff.documents(part, starts[changed - 1])
    return of_array(json_diff.patched(json_text.decode(column), changed.tolist(), whole))


def _state(images: RowImages, chunk: Chunk, column: int, found: Texts) -> npt.NDArray[np.uint8]:
    """What a column's cells are. A column that an after image left out stands where the before image has it."""
    own = images.starts[column]
    state = np.where(own >= 0, VALUED, np.where(own == NULL, NULLED, np.where(own <= DIFF, VALUED, OMITTED)))
    if found.beyond is not None:
        state[(found.beyond != 0) & (own >= 0)] = BEYOND
    if len(own) > 1:
        whole = chunk.index["type"][images.event[1:]] != EventType.PARTIAL_UPDATE_ROWS
        left_out = (images.op[1:] == UPDATE_AFTER) & (own[1:] >= 0) & (own[1:] == own[:-1]) & whole
        state[1:][left_out] = OMITTED
    return state.astype(np.uint8)

"""The cells of one table's row images in a window: each column's texts, and what a kernel needs to write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdc_core.binlog.row_image import DIFF
from cdc_core.canal.entries import java_types
from cdc_core.canal.entries.options import Options
from cdc_core.canal.entries.plans import FIELDS, TextSource, plan
from cdc_core.canal.entries.texts import Texts, of_array, texts
from cdc_core.canal.entries.wire import number, text
from cdc_core.compiled.kernel import Bytes, Longs
from cdc_core.compiled.words import SLACK
from cdc_core.rows.chunks import Chunk
from cdc_core.rows.columns import json_diff, json_text
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.images import RowImages
from cdc_core.schema.table import PRIMARY, TableSchema

PARTS = 8  # places of a column in `TableCells.parts`
_UPDATED, _NULL, _VALUE = b"\x28\x01", b"\x30\x01", b"\x30\x00\x42"  # fields 5 and 6, and the tag of field 8


@dataclass(frozen=True, slots=True)
class TableCells:
    """What a kernel needs to write all cells of a table's images. `columns[k]` is the number of a shown column in the
    table, and `plans[k]` its plan. The ready texts of image i are `data[ends[ready, i]:ends[ready, i + 1]]`.

    `fixed` has for each column how its Column message begins: for a NULL, for a value and for an unsigned number beyond
    the signed range, each for a column that is not and for one that is updated, up to the value's length; then how the
    message ends. `parts[k]` are the places between these seven."""

    columns: Longs
    plans: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    data: Bytes
    fixed: Bytes
    parts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Template:
    """What never changes of a table's columns. `shown` are the numbers of those that become cells, `ready` of those
    among them whose texts the kernel does not print."""

    schema: TableSchema
    shown: tuple[int, ...]
    ready: tuple[int, ...]
    columns: Longs
    plans: npt.NDArray[np.int64]
    fixed: Bytes
    parts: npt.NDArray[np.int64]


def template(schema: TableSchema, options: Options) -> Template:
    """Raises SchemaError for a column of a type that cannot be read."""
    key = schema.primary_key if schema.key_index == PRIMARY else ()
    shown = [
        i for i, column in enumerate(schema.columns) if not column.hidden and options.shows(schema.name, column.name)
    ]
    pieces: list[bytes] = []
    plans: list[tuple[int, ...]] = []
    ready: list[int] = []
    for i in shown:
        column = schema.columns[i]
        plans.append(plan(column, len(ready)))
        if plans[-1][0] == TextSource.READY:
            ready.append(i)
        kinds = java_types.java_types(column)
        rest = text(3, column.name) + number(4, int(column.name in key))
        for kind, behind in ((kinds.null, _NULL), (kinds.value, _VALUE), (kinds.beyond, _VALUE)):
            head = number(1, i) + number(2, kind) + rest
            pieces += [head + behind, head + _UPDATED + behind]
        pieces.append(text(10, java_types.mysql_type(column)))
    ends = np.cumsum([0, *map(len, pieces)])
    parts = np.array([ends[7 * k : 7 * k + PARTS] for k in range(len(shown))], np.int64).reshape(len(shown), PARTS)
    fixed = np.frombuffer(b"".join(pieces) + bytes(SLACK), np.uint8)
    columns, planned = np.array(shown, np.int64), np.array(plans, np.int64).reshape(len(shown), FIELDS)
    return Template(schema, tuple(shown), tuple(ready), columns, planned, fixed, parts)


def cells(made: Template, chunk: Chunk, images: RowImages) -> TableCells:
    """Raises DecodeError for damaged values of the columns whose texts come ready."""
    ends = np.empty((len(made.ready), len(images) + 1), np.int64)
    pieces, size = [], 0
    for k, found in enumerate(_texts(made, made.ready, chunk, images)):
        ends[k] = found.ends + size
        pieces.append(found.data[: found.ends[-1]])
        size += int(found.ends[-1])
    data = np.concatenate([*pieces, np.zeros(SLACK, np.uint8)])
    return TableCells(made.columns, made.plans, ends, data, made.fixed, made.parts)


def check(made: Template, chunk: Chunk, images: RowImages) -> None:
    """Raises DecodeError for the first damaged value of all columns: the kernel only finds that there is one."""
    for _ in _texts(made, made.shown, chunk, images):
        pass


def _texts(made: Template, columns: Iterable[int], chunk: Chunk, images: RowImages) -> Iterator[Texts]:
    for i in columns:
        own = np.ascontiguousarray(images.starts[i])
        column = Cells(
            made.schema.name, made.schema.columns[i], chunk.data, own, place=lambda j: chunk.place(int(images.event[j]))
        )
        changed = np.flatnonzero(own <= DIFF) if images.diffs else ()
        yield _documents(column, images.starts[i], np.asarray(changed)) if len(changed) else texts(column)


def _documents(column: Cells, starts: Longs, changed: npt.NDArray[np.int64]) -> Texts:
    """JSON documents of which some are logged as changes: the whole document all the same."""
    part = Cells(column.table, column.column, column.data, DIFF - starts[changed], place=column.place)
    whole = json_diff.documents(part, starts[changed - 1])
    return of_array(json_diff.patched(json_text.decode(column), changed.tolist(), whole))

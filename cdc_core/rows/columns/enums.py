"""ENUM and SET: numbers in the log, labels in the definition."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from cdc_core.compiled.kernel import Longs
from cdc_core.rows.columns.arrays import fixed, strings
from cdc_core.rows.columns.arrays import numbers as numeric
from cdc_core.rows.columns.cells import Cells
from cdc_core.rows.columns.integers import gathered
from cdc_core.schema.column_type import ColumnType
from cdc_core.schema.table import Column, unsupported


def arrow_type(column: Column) -> pa.DataType:
    if not column.labels:
        hint = "SET GLOBAL binlog_row_metadata = FULL at the source, or grant SELECT on the table."
        raise unsupported(column, "the labels of ENUM or SET are not known", hint)
    odd = [label for label in column.labels if label.startswith("0x")]
    if len(set(odd)) < len(odd):
        raise unsupported(column, f"two labels of ENUM or SET are read as the same text, among {odd}")
    return pa.string()


def decode(cells: Cells) -> pa.Array:
    numbers = gathered(cells, cells.column.meta)
    texts, indices = _enum(cells, numbers) if cells.column.type_code == ColumnType.ENUM else _set(cells, numbers)
    return texts.take(fixed(pa.int64(), indices, cells.present()))


def _enum(cells: Cells, numbers: Longs) -> tuple[pa.Array, Longs]:
    """Labels count from 1; 0 is the empty string, which an invalid value became."""
    beyond = np.flatnonzero(numbers > len(cells.column.labels))
    if len(beyond):
        raise cells.error(int(beyond[0]), f"no label of number {numbers[beyond[0]]} in {len(cells.column.labels)}")
    return strings(("", *cells.column.labels)), numbers


def _set(cells: Cells, masks: Longs) -> tuple[pa.Array, Longs]:
    """A bit for each label. Each distinct mask is spelled once: there are few."""
    labels = cells.column.labels
    coded = numeric(masks.view(np.uint64)).dictionary_encode()
    distinct = coded.dictionary.to_pylist()
    for mask in distinct:
        if mask >> len(labels):
            image = int(np.flatnonzero(masks.view(np.uint64) == mask)[0])
            raise cells.error(image, f"a bit beyond the set's {len(labels)} labels")
    spelled = [_joined(label for bit, label in enumerate(labels) if mask >> bit & 1) for mask in distinct]
    return strings(spelled), np.frombuffer(coded.indices.buffers()[1], np.int32, len(masks)).astype(np.int64)


def _joined(labels: Iterable[str]) -> str:
    """As the server joins labels: without a comma before the first one that is not empty."""
    text = ""
    for label in labels:
        text = f"{text},{label}" if text else label
    return text

"""Reads a table's changes as Arrow, in the process of the run: the rows that their keys have after them, or all images.

A claim's rows come a batch at a time, as the service hands them out. Of a log, and of a claim whose images are read,
all is held at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from spark_jobs.changes import columns as log
from spark_jobs.changes.in_order import LOGGED, in_order, log_images, signed
from spark_jobs.changes.keys import key_codes, plain
from spark_jobs.changes.net import CLAIMED, GONE
from spark_jobs.changes.table_changes import Changes, OfClaim
from spark_jobs.lake.types import COUNT, OP

MOST_BYTES = 1 << 30  # of the images that are held at once
_REMOVE = 2  # of OP in net changes
_PLACE = (log.OP, log.JOURNAL, log.POSITION, log.TIME)


class Unreadable(Exception):
    """The changes cannot be read so; the text says why."""


def net_rows(changes: Changes, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yields each key's last row once: these columns and its key, and `GONE`: whether the key has no row then. Without
    a key: the rows that are added. Raises Unreadable, and what Flight raises."""
    if changes.counts.partial:
        raise Unreadable("its row images leave columns out (binlog_row_image is not FULL)")
    wanted = list(dict.fromkeys((*changes.key, *columns)))
    if not isinstance(changes.source, OfClaim) or changes.source.images:
        yield _net(changes, all_images(changes, wanted), wanted)
        return
    for ticket in changes.source.read.tickets:
        for batch in changes.source.door.split(ticket):
            rows = plain(pa.Table.from_batches([batch]).replace_schema_metadata(None))
            if changes.key:
                yield rows.select(wanted).append_column(GONE, pc.equal(rows[OP], _REMOVE))
            else:
                yield _there(rows.filter(pc.greater(rows[COUNT], 0)).select(wanted))


def all_images(changes: Changes, columns: Sequence[str]) -> pa.Table:
    """Returns all images in the form of a log: these columns, and those of their order, place and kind. Raises
    Unreadable, and what Flight raises."""
    source, names = changes.source, [*columns, *_PLACE, *LOGGED]
    if not isinstance(source, OfClaim):
        try:
            found = log_images(source.log, changes.range.expression, names, MOST_BYTES)
        except (OSError, DeltaError, pa.ArrowException) as error:
            raise Unreadable(f"its change log cannot be read: {error}") from error
        if found is None:
            raise Unreadable("its changes are too many bytes")
        return plain(found)
    parts, size = list[pa.RecordBatch](), 0
    for ticket in source.read.tickets:
        for part in source.door.split(ticket):
            parts.append(part)
            size += part.nbytes
            if size > MOST_BYTES:
                raise Unreadable("its changes are too many bytes")
    rows = plain(pa.Table.from_batches(parts, source.read.schema).replace_schema_metadata(None))
    return numbered(rows).select(names)


def numbered(images: pa.Table) -> pa.Table:
    """Returns the images of a claim, which come in the order of their changes, with the columns of a log."""
    renamed = [log.TIME if name == CLAIMED.time else name for name in images.column_names]
    images, none = images.rename_columns(renamed), np.zeros(images.num_rows, np.int64)
    numbers = {log.EPOCH: none, log.VERSION: none, log.NTH: np.arange(images.num_rows)}
    for name, values in numbers.items():
        images = images.append_column(name, pa.array(values))
    return images


def _net(changes: Changes, images: pa.Table, columns: Sequence[str]) -> pa.Table:
    if changes.key:
        found = in_order(images, changes.key)
        rows = found and found.last_of_each(columns)
    else:
        counted = signed(images, columns)
        rows = None if counted is None else _there(_added(counted, columns))
    if rows is None:
        raise Unreadable("some of its changes are not rows")
    return rows


def _added(counted: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Returns each distinct row of which copies are added, once."""
    codes = key_codes(counted.select(columns))
    sums = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    np.add.at(sums, codes, counted.column(COUNT).to_numpy())
    _, first = np.unique(codes, return_index=True)
    return counted.select(columns).take(pa.array(first[sums > 0]))


def _there(rows: pa.Table) -> pa.Table:
    return rows.append_column(GONE, pa.array(np.zeros(rows.num_rows, bool)))

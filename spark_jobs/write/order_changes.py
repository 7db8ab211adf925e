"""Reads the changes of one order as an Arrow table: a task pulls them from the service or reads a change log.

With a key: the columns of each key's last image, Sluice's own columns, and `GONE`: whether the key has no row then.
Without a key: rows, and `COUNT`: the copies of each that are added or removed. For a history: the versions that are
closed and opened.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from spark_jobs.changes import columns as log
from spark_jobs.changes.arrow_rows import numbered
from spark_jobs.changes.in_order import LOGGED, in_order, log_images, signed
from spark_jobs.changes.keys import plain, without_keys
from spark_jobs.changes.net import GONE
from spark_jobs.changes.versions import Versions
from spark_jobs.lake.types import COUNT, OP
from spark_jobs.write.order import SENT_BYTES, Claimed, Form, Logged, Order

_IMAGE = (log.OP, log.JOURNAL, log.POSITION, log.TIME)
_REMOVE = 2  # of OP in net changes
_PULL_SECONDS = 120.0  # at most, for each of a small table's tickets; then Spark's statement pulls


class Unfit(Exception):
    """The table is not for delta-rs after all, or not this run's: Spark's statement reports what is wrong."""


def changes_of(order: Order) -> pa.Table:
    """Returns the changes, without the keys that are left out. Raises Unfit if Spark should read them, and what Flight
    and delta-rs raise."""
    return without_keys(_read(order), order.left_out)


def _read(order: Order) -> pa.Table:
    asked = order.changes
    if isinstance(asked, Logged):
        images = _logged(order, asked, order.storage)
        return _versions(order, images, asked.emptied) if order.form is Form.VERSIONS else _net(order, images)
    rows = _pulled(asked) if asked.tickets or asked.images else _no_rows(order)
    if asked.images:
        return _net(order, numbered(rows))
    if not order.key:
        return rows.select([*order.columns, COUNT])
    return rows.select(order.columns).append_column(GONE, pc.equal(rows[OP], _REMOVE))


def _versions(order: Order, images: pa.Table, emptied: int | None) -> pa.Table:
    found = in_order(images, order.key)
    if found is None or not len(found.order):
        raise Unfit("some of its changes are not rows")
    return pa.concat_tables(Versions.of(found).slices(order.columns, emptied))


def _net(order: Order, images: pa.Table) -> pa.Table:
    if order.key:
        sorted_ = in_order(images, order.key)
        found = sorted_ and sorted_.last_of_each(order.columns, order.own)
    else:
        found = signed(images, order.columns)
    if found is None:
        raise Unfit("some of its changes are not rows")
    return found


def _logged(order: Order, asked: Logged, storage: Mapping[str, str]) -> pa.Table:
    source = DeltaTable(asked.path, version=asked.version, storage_options=dict(storage) or None)
    names = [*order.columns, *_IMAGE, *LOGGED]
    found = log_images(source, asked.range.expression, names, SENT_BYTES)
    if found is None:
        raise Unfit("its changes are too many bytes")
    return found


def _no_rows(order: Order) -> pa.Table:
    """Returns the changes of a claim of which no row is left: its copies cancel out, or are not the lake's."""
    system = {OP: pa.array([], pa.int8()), COUNT: pa.array([], pa.int64())}
    return pa.table({column: pa.nulls(0) for column in order.columns} | system)


def _pulled(asked: Claimed) -> pa.Table:
    """Returns all rows of the tickets, with plain values in place of dictionaries."""
    parts, size = list[pa.RecordBatch](), 0
    for ticket in asked.tickets:
        for part in asked.door.split(ticket, timeout_seconds=_PULL_SECONDS):
            parts.append(part)
            size += part.nbytes
            if size > SENT_BYTES:
                raise Unfit("its changes are too many bytes")
    return plain(pa.Table.from_batches(parts).replace_schema_metadata(None))

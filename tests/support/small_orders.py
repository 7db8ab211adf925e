"""What a run would have a task write of a small table, without Spark."""

from __future__ import annotations

from cdc_core.client.changes import RowsDoor
from spark_jobs.changes.table_changes import Changes
from spark_jobs.lake.ddl import create_table
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import lake_columns
from spark_jobs.session import Sessions
from spark_jobs.write.order import Claimed, Order, form_of
from tests.support.spark_feed import Change, Feed, Table


def ordered(service: Feed, lake: Lake, table: Table, changes: list[Change], batch: int, start: int, end: int) -> Order:
    """What a run would have a task write of these changes."""
    service.put(table, changes)
    claim, door = service.claim(batch, start, end), RowsDoor(service.url)
    name = table.schema.name
    read, path, app = door.info(claim, name), lake.path("shop", table.name), app_id("d", 1, name, 1)
    columns = lake_columns(read.schema, read.table)
    if not lake.has("shop", table.name):
        create_table(Sessions("sc://127.0.0.1:1"), lake, path, "d", table.schema, columns, "mine")
    state = lake.state(path, app)
    assert state is not None
    form = form_of(Changes.claimed(claim, read, door, None), state)
    assert form is not None
    names = tuple(column.name for column in columns)
    return Order(path, app, claim.end.version(), "{}", "mine", form, names, table.key, Claimed(door, read.tickets))

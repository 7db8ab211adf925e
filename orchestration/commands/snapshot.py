"""`sluice snapshot DESTINATION [TABLE...]`: brings tables into the lake, or reloads them, beside the stream."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.errors import SluiceError
from cdc_core.schema.names import full_name
from orchestration.commands.copy import Order, fields
from orchestration.commands.text import place
from orchestration.commands.verify import connector_of, pair
from spark_jobs.copy.result import Copied, NoSuchTable
from spark_jobs.copy.snapshot import Manner, Read, TableSnapshots
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one table: `found`, or the error in its place."""

    table: str
    seconds: float
    found: Copied | NoSuchTable | SluiceError

    @property
    def good(self) -> bool:
        return isinstance(self.found, Copied)

    @property
    def rate(self) -> int:
        """Rows a second."""
        return round(self.found.rows / self.seconds) if isinstance(self.found, Copied) and self.seconds else 0


def run(order: Order, manner: Manner, *, cancel: bool, as_json: bool, clock: Clock = time.monotonic) -> int:
    """1 when a table was not brought into the lake; the others are. Each is told when it is done: a row of text, or a
    JSON line. No tables: all that are captured."""
    console = Console()
    service, _ = config.load_service(order.conf)
    instance, _ = config.load_instance(order.conf, order.destination)
    with (
        connector_of(order.service, order.token, service, order.destination, order.client) as connector,
        Sessions(order.spark, order.spark_token, order.lake) as sessions,
    ):
        snapshots = TableSnapshots(connector, instance, Lake(order.lake), sessions, manner)
        tables = [pair(name) for name in order.tables] or captured(connector)
        if cancel:
            return _cancel(snapshots, [full_name(*table) for table in tables], as_json=as_json)
        failed = 0
        for database, table in tables:
            done = _with_progress(console, snapshots, database, table, clock)
            failed += not done.good
            if as_json or not console.is_terminal:
                print(json.dumps(line(done)), flush=True)
            else:
                console.print(_told(done))
    return 1 if failed else 0


def captured(connector: Connector) -> list[tuple[str, str]]:
    """The tables that the service captures."""
    return [(table.database, table.table) for table in connector.tables()]


def _cancel(snapshots: TableSnapshots, tables: list[str], *, as_json: bool) -> int:
    """Ends the open snapshots of these tables."""
    for table in tables:
        was = snapshots.cancel(table)
        print(json.dumps({"table": table, "cancelled": was}) if as_json else f"{table}: {_CANCELLED[was]}")
    return 0


_CANCELLED = {True: "its snapshot is cancelled; the lake's table is as it was", False: "has no open snapshot"}


def _with_progress(console: Console, snapshots: TableSnapshots, database: str, table: str, clock: Clock) -> Done:
    name, begun = full_name(database, table), clock()
    with console.status(f"{name}: waits for a place in the binlog") as status:
        try:
            found: Copied | NoSuchTable | SluiceError = snapshots.table(
                database, table, told=lambda read: status.update(progress(read, clock() - begun))
            )
        except SluiceError as error:
            found = error
    return Done(name, clock() - begun, found)


def progress(read: Read, seconds: float) -> str:
    """One line of how far a table is. The rate is that since this command began, also where another had read some."""
    of = f" of about {read.of_rows:,}" if read.of_rows and read.of_rows > read.rows else ""
    rate = f", {round((read.rows - read.before) / seconds):,} rows/s" if seconds > 0 else ""
    return f"{read.table}: {read.rows:,}{of} rows in {read.chunks} chunks{rate}"


def line(done: Done) -> dict[str, Any]:
    """As `--json` prints it."""
    if isinstance(done.found, SluiceError):
        return {"table": done.table, "copied": False, **done.found.as_dict()}
    return fields(done.found) | {"seconds": round(done.seconds, 1), "rows_per_second": done.rate}


def _told(done: Done) -> Text:
    found = done.found
    if isinstance(found, SluiceError):
        return Text(f"{done.table}: {found}", "red")
    if isinstance(found, NoSuchTable):
        return Text(f"{done.table}: the source has no such table; nothing was written", "red")
    rows = f": {found.rows:,} rows as of {place(found.place.low)}, {done.rate:,} rows/s"
    return Text.assemble((found.table, "bold"), rows)

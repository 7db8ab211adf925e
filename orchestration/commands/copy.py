"""`sluice copy DESTINATION TABLE...`: makes tables of the lake anew from the source."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from cdc_core import config
from cdc_core.schema.names import full_name
from orchestration.commands.text import place
from orchestration.commands.verify import connector_of, pair
from spark_jobs.copy.repair import Repair
from spark_jobs.copy.result import Copied, NoSuchTable
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions


@dataclass(frozen=True, slots=True)
class Order:
    """Which tables to copy into which lake. `service` is None where the configuration says where it is."""

    destination: str
    tables: tuple[str, ...]
    lake: str
    conf: Path
    client: int
    spark: str
    spark_token: str
    service: str | None
    token: str


def run(order: Order, *, as_json: bool) -> int:
    """1 when the source has no such table. Each table is told when it is done: a row of text, or a JSON line."""
    console = Console()
    service, _ = config.load_service(order.conf)
    instance, _ = config.load_instance(order.conf, order.destination)
    tables, missing = [pair(name) for name in order.tables], 0
    with (
        connector_of(order.service, order.token, service, order.destination, order.client) as connector,
        Sessions(order.spark, order.spark_token, order.lake) as sessions,
    ):
        repair = Repair(connector, instance, Lake(order.lake), sessions)
        for database, table in tables:
            found = _with_progress(console, repair, database, table)
            missing += isinstance(found, NoSuchTable)
            if as_json or not console.is_terminal:
                print(json.dumps(fields(found)), flush=True)
            else:
                console.print(_told(found))
    return 1 if missing else 0


def _with_progress(console: Console, repair: Repair, database: str, table: str) -> Copied | NoSuchTable:
    name = full_name(database, table)
    with console.status(f"{name}: waits for a place in the binlog") as status:
        return repair.table(database, table, progress=lambda rows: status.update(f"{name}: {rows:,} rows so far"))


def fields(found: Copied | NoSuchTable) -> dict[str, Any]:
    """What became of a table, as `--json` and Dagster show it."""
    where = {"position": str(found.place.low), "high": str(found.place.high)}
    if isinstance(found, NoSuchTable):
        return {"table": full_name(found.database, found.table), "copied": False, **where}
    return {"table": found.table, "copied": True, "rows": found.rows, "delta_version": found.delta_version, **where}


def _told(found: Copied | NoSuchTable) -> Text:
    if isinstance(found, NoSuchTable):
        return Text(
            f"{full_name(found.database, found.table)}: the source has no such table; nothing was written", "red"
        )
    return Text.assemble((found.table, "bold"), f": {found.rows:,} rows as of {place(found.place.low)}")

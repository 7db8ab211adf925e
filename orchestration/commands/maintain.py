"""`sluice maintain DESTINATION [TABLE...]`: rewrites small files of the lake's tables, and deletes old ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.errors import SluiceError
from cdc_core.schema.names import full_name
from orchestration.commands.copy import Order
from orchestration.commands.verify import connector_of, pair
from orchestration.freshness import parse_freshness
from spark_jobs.following.pending import Follows
from spark_jobs.lake.tables import Lake
from spark_jobs.maintain.logs import LogUpkeep, Retention
from spark_jobs.maintain.result import Maintained
from spark_jobs.maintain.upkeep import Upkeep
from spark_jobs.session import Sessions

_QUIET, _LONGEST = 30.0, 300.0  # seconds: of a run that lingers, and of one that waits for more rows


def run(order: Order, *, as_json: bool, log_hours: int | None = None, freshness: str = "") -> int:
    """1 when a table could not be looked after; the others are. Each is told when it is done. No tables: all that are
    captured, all change logs and histories. `log_hours`: how long logs keep rows that their tables have. `freshness`:
    what the destination declares."""
    declared = parse_freshness(freshness)
    service, _ = config.load_service(order.conf)
    failed = 0
    with (
        connector_of(order.service, order.token, service, order.destination, order.client) as connector,
        Sessions(order.spark, order.spark_token, order.lake) as sessions,
    ):
        upkeep = Upkeep(
            connector,
            Lake(order.lake),
            sessions,
            quiet_seconds=_QUIET + min(_LONGEST, declared.seconds),
            stays=declared.asap,
        )
        tables = [pair(name) for name in order.tables]
        for done in chain(_each(upkeep, connector, tables), _logs(upkeep, order, log_hours), _histories(upkeep, order)):
            failed += bool(done.failed)
            print(json.dumps(done.to_dict()) if as_json else f"{done.table}: {done.text}", flush=True)
    return 1 if failed else 0


def _each(upkeep: Upkeep, connector: Connector, tables: list[tuple[str, str]]) -> Iterator[Maintained]:
    for database, table in tables or [(one.database, one.table) for one in connector.tables()]:
        try:
            yield upkeep.table(database, table)
        except SluiceError as error:
            yield Maintained(full_name(database, table), failed=str(error))


def _logs(upkeep: Upkeep, order: Order, hours: int | None) -> Iterator[Maintained]:
    """Rows of a log go only where a merged table has them: this does not know which logs are to have none."""
    logs = LogUpkeep(Follows(upkeep.lake, order.destination, order.client))
    for table in upkeep.lake.logs(order.destination):
        if order.tables and table not in order.tables:
            continue
        try:
            yield logs.log(table, Retention(hours))
        except SluiceError as error:
            yield Maintained(f"{table}__log", failed=str(error))


def _histories(upkeep: Upkeep, order: Order) -> Iterator[Maintained]:
    for table in upkeep.lake.logs(order.destination):
        if order.tables and table not in order.tables:
            continue
        try:
            if upkeep.has_history(table):
                yield upkeep.history(table)
        except SluiceError as error:
            yield Maintained(f"{table}__history", failed=str(error))

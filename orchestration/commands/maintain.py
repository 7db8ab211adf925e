"""`sluice maintain DESTINATION [TABLE...]`: rewrites small files of the lake's tables, and deletes old ones."""

from __future__ import annotations

import json
from collections.abc import Iterator

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.errors import SluiceError
from cdc_core.schema.names import full_name
from orchestration.commands.copy import Order
from orchestration.commands.verify import connector_of, pair
from spark_jobs.lake.tables import Lake
from spark_jobs.maintain.result import Maintained
from spark_jobs.maintain.upkeep import Upkeep
from spark_jobs.session import Sessions


def run(order: Order, *, as_json: bool) -> int:
    """1 when a table could not be looked after; the others are. Each is told when it is done. No tables: all that are
    captured."""
    service, _ = config.load_service(order.conf)
    failed = 0
    with (
        connector_of(order.service, order.token, service, order.destination, order.client) as connector,
        Sessions(order.spark, order.spark_token) as sessions,
    ):
        upkeep = Upkeep(connector, Lake(order.lake), sessions)
        for done in _each(upkeep, connector, [pair(name) for name in order.tables]):
            failed += bool(done.failed)
            print(json.dumps(done.to_dict()) if as_json else f"{done.table}: {done.text}", flush=True)
    return 1 if failed else 0


def _each(upkeep: Upkeep, connector: Connector, tables: list[tuple[str, str]]) -> Iterator[Maintained]:
    for database, table in tables or [(one.database, one.table) for one in connector.tables()]:
        try:
            yield upkeep.table(database, table)
        except SluiceError as error:
            yield Maintained(full_name(database, table), failed=str(error))

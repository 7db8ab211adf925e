"""`sluice verify`: compares source and lake, table by table, and brings rows right that differ where asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.client.trust import Trust, authorities
from cdc_core.config import InstanceConfig, ServiceConfig
from cdc_core.contract.doors import local_doors
from cdc_core.errors import ConfigError
from cdc_core.schema.names import split_name
from cdc_core.serve import token_of
from orchestration.commands.text import comparison_table
from orchestration.source import source_of
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.verify.beside import TableComparer, compared
from spark_jobs.verify.history import histories_compared
from spark_jobs.verify.repair import RowRepair
from spark_jobs.verify.verified import Verified


@dataclass(frozen=True, slots=True)
class Question:
    """What to compare. An empty `tables` means all captured tables, and those that the lake has besides; a
    `destination` of None means all destinations. With `repair` the rows that differ are brought right, by Spark."""

    lake: str
    conf: Path
    destination: str | None
    tables: tuple[str, ...]
    client: int
    timeout: float
    service: str | None
    token: str
    repair: bool = False
    spark: str = ""
    spark_token: str = field(default="", repr=False)


def run(question: Question, *, as_json: bool) -> int:
    """1 when a table differs, after its repair where that was asked. Prints a table in a terminal; else, and with
    --json, a JSON line for each table."""
    console, rows = Console(), []
    lines = as_json or not console.is_terminal
    for row in answers(question):
        rows.append(row)
        if lines:
            print(json.dumps(row.to_dict()), flush=True)
    if not lines:
        console.print(comparison_table(rows))
    return 1 if any(row.differences for row in rows) else 0


def answers(question: Question) -> Iterator[Verified]:
    service, _ = config.load_service(question.conf)
    names = [question.destination] if question.destination else config.destinations(service)
    if not names:
        raise ConfigError(
            "no destination is configured", place=str(question.conf), hint="Add {destination}/instance.properties."
        )
    for name in names:
        instance, _ = config.load_instance(question.conf, name)
        with connector_of(question.service, question.token, service, name, question.client) as connector:
            yield from _destination(question, instance, connector)


def _destination(question: Question, instance: InstanceConfig, connector: Connector) -> Iterator[Verified]:
    lake, source = Lake(question.lake), source_of(instance, connector)
    beside = TableComparer(connector, source, lake, question.timeout)
    if not question.tables:  # a RENAME that neither service nor lake has followed leaves them the old name
        beside.await_lake()
    named = question.tables or tuple(table.name for table in connector.tables())
    besides = () if question.tables else sorted({*lake.live_tables(connector.destination)} - {*named})
    with Sessions(question.spark, question.spark_token, question.lake) as sessions:
        if question.repair:
            beside = replace(beside, settle=RowRepair(sessions).of)
        yield from compared(beside, map(pair, named), map(pair, besides))
        yield from histories_compared(beside, named)


def connector_of(url: str | None, token: str, service: ServiceConfig, destination: str, client: int) -> Connector:
    """A client of the service at `url`; without it, of the one that the configuration describes."""
    doors = None if url else local_doors(service)
    there, rows = (url, None) if doors is None else (doors.http, doors.flight)
    trust = Trust(authorities(service.tls_ca))
    return Connector(
        there, destination, flight_url=rows, client_id=client, token=token or token_of(service), trust=trust
    )


def pair(name: str) -> tuple[str, str]:
    """Database and table. Raises ConfigError for a name without both."""
    try:
        return split_name(name)
    except ValueError as error:
        hint = "Put a database whose name has a dot in backticks: `my.shop`.orders"
        raise ConfigError(str(error), hint=hint) from error

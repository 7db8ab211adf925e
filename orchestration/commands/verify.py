"""`sluice verify`: source against lake, one JSON line a table."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cdc_core import config
from cdc_core.addresses import source_settings
from cdc_core.client.connector import Connector
from cdc_core.config import InstanceConfig, ServiceConfig
from cdc_core.errors import ConfigError
from cdc_core.position import EntryPosition
from cdc_core.serve import token_of
from orchestration.commands.demo import comparison
from spark_jobs.lake import Lake
from spark_jobs.verify import Reader, Source, verify


@dataclass(frozen=True, slots=True)
class Question:
    """What to compare. An empty `tables` means all that are captured."""

    lake: str
    conf: Path
    destination: str | None
    tables: tuple[str, ...]
    client: int
    timeout: float
    service: str | None
    token: str


def run(question: Question, *, as_json: bool) -> int:
    """1 when a table differs. For people a table, for pipes and with --json one line a table as it is known."""
    console, rows = Console(), []
    lines = as_json or not console.is_terminal
    for row in answers(question):
        rows.append(row)
        if lines:
            print(json.dumps(row), flush=True)
    if not lines:
        console.print(comparison(rows))
    return 1 if any(row["missing"] or row["extra"] or row["different"] for row in rows) else 0


def answers(question: Question) -> Iterator[dict[str, Any]]:
    service, _ = config.load_service(question.conf)
    names = [question.destination] if question.destination else config.destinations(service)
    if not names:
        raise ConfigError(
            "no destination is configured", place=str(question.conf), hint="Add {destination}/instance.properties."
        )
    for name in names:
        instance, _ = config.load_instance(question.conf, name)
        with _connector(question, service, name) as connector:
            yield from _destination(question, instance, connector)


def _destination(question: Question, instance: InstanceConfig, connector: Connector) -> Iterator[dict[str, Any]]:
    state = connector.client_state()
    named = question.tables or tuple(table.name for table in connector.tables())
    tables = [_pair(name) for name in named]
    read = source_settings(instance, str(connector.status()["source"].get("address") or ""))  # it may be the standby
    source = Source(read.host, read.port, read.user, read.password, _tls(instance))
    reader = Reader(connector.destination, question.client, state["epoch"], lambda: _cursor(connector))
    yield from verify(source, tables, Lake(question.lake), reader, timeout_seconds=question.timeout)


def _connector(question: Question, service: ServiceConfig, destination: str) -> Connector:
    url = question.service or f"http://{service.host}:{service.http_port}"
    token = question.token or token_of(service)
    return Connector(url, destination, client_id=question.client, token=token)


def _cursor(connector: Connector) -> EntryPosition | None:
    cursor = connector.client_state()["cursor"]
    return None if cursor is None else EntryPosition.from_dict(cursor)


def _pair(name: str) -> tuple[str, str]:
    database, _, table = name.partition(".")
    if not table:
        raise ConfigError(f"{name!r} names no database", hint="Write it as database.table.")
    return database, table


def _tls(instance: InstanceConfig) -> dict[str, Any] | None:
    """As pymysql wants it, of the same strictness as the service's own connection."""
    if instance.ssl_mode in ("DISABLED", "PREFERRED"):
        return None
    verified = instance.ssl_mode.startswith("VERIFY")
    files = {"ca": instance.ssl_ca, "cert": instance.ssl_cert, "key": instance.ssl_key}
    settings: dict[str, Any] = {name: str(path) for name, path in files.items() if path}
    settings["verify_mode"] = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
    settings["check_hostname"] = instance.ssl_mode == "VERIFY_IDENTITY"
    return settings

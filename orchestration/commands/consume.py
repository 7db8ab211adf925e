"""`sluice consume`: prints what a destination's client gets, by Canal's protocol, and acks it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from cdc_core.canal.client import Boundary, CanalConnector, ClusterCanalConnector, Consumer, Handler, Policy, Row
from cdc_core.canal.client.events import Event, Statement
from cdc_core.canal.entries.kinds import CanalEventType
from cdc_core.errors import ConfigError

_SIGNS = {CanalEventType.INSERT: "+", CanalEventType.UPDATE: "~", CanalEventType.DELETE: "-"}


PASSING = 9001  # the client id of who names none


def run(connector: CanalConnector, batch_size: int, batches: int | None, *, passing: bool, as_json: bool) -> int:
    """Until Ctrl-C, or after so many batches. A `passing` client is forgotten then."""
    printer = Lines() if as_json else Printed()
    with connector:
        try:
            Consumer(connector, printer, Policy(batch_size=batch_size), tell=lambda _: None).run(batches=batches)
        except KeyboardInterrupt:
            pass
        finally:
            if passing:
                _forget(connector)
    return 0


def _forget(connector: CanalConnector) -> None:
    """Removes the client's cursor, over a new connection: the old one may have been interrupted in an answer."""
    connector.connect()
    connector.unsubscribe()


def connector_of(
    address: str, zookeeper: str, destination: str, client_id: int, user: str, password: str, filter_text: str
) -> CanalConnector:
    """To one server, or with `zookeeper` to the one that runs the destination. Raises ConfigError for a bad address."""
    options: dict[str, Any] = {"user": user, "password": password or None, "client_id": client_id}
    options["filter"] = filter_text
    if zookeeper:
        return ClusterCanalConnector(zookeeper, destination, **options)
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()):
        hint = "Give host:port, e.g. 127.0.0.1:11111."
        raise ConfigError(f"{address!r} is not an address", place="--address", hint=hint)
    return CanalConnector(host, int(port), destination, **options)


class Printed(Handler):
    """A line for each event."""

    def handle(self, event: Event) -> None:
        match event:
            case Row():
                shown = _changes(event) if event.kind is CanalEventType.UPDATE else _values(event.after or event.before)
                print(f"{_SIGNS[event.kind]} {event.header.name}  {shown}")
            case Statement():
                print(f"! {event.header.name}  {event.sql}")
            case Boundary():
                print(f"{'begin' if event.begins else 'end'} {event.header.place}")

    def on_batch_end(self, batch_id: int) -> None:  # noqa: ARG002
        sys.stdout.flush()


class Lines(Handler):
    """A JSON object for each row and statement."""

    def handle(self, event: Event) -> None:
        if isinstance(event, Boundary):
            return
        header = event.header
        line: dict[str, object] = {
            "kind": event.kind.name,
            "database": header.database,
            "table": header.table,
            "place": header.place,
            "execute_time": header.execute_time,
        }
        if isinstance(event, Row):
            line |= {"before": event.before, "after": event.after, "key": event.key}
        else:
            line["sql"] = event.sql
        print(json.dumps(line, ensure_ascii=False))

    def on_batch_end(self, batch_id: int) -> None:  # noqa: ARG002
        sys.stdout.flush()


def _values(values: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in values.items())


def _changes(row: Row) -> str:
    """The key, and what changed."""
    keys = ", ".join(f"{name}={_shown(row.before.get(name))}" for name in row.key)
    changed = (f"{name}: {_shown(row.before.get(name))} -> {_shown(row.after.get(name))}" for name in row.updated)
    return ", ".join([*([keys] if keys else []), *changed])


def _shown(value: str | None) -> str:
    return "NULL" if value is None else repr(value) if not value or value != value.strip() or "," in value else value

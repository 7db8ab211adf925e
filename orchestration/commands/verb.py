"""Runs a verb from the command line: `sluice copy`, `snapshot`, `pause` and the like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.client.trust import Trust, authorities
from cdc_core.contract.doors import local_doors
from cdc_core.errors import ConfigError, SluiceError
from cdc_core.serve import token_of
from orchestration.commands.terminal import Terminal
from orchestration.verbs.access import Access, Declared
from orchestration.verbs.orders import Order

if TYPE_CHECKING:
    from orchestration.settings import Settings
    from spark_jobs.session import Sessions


def run(order: Order, at: Access, *, as_json: bool, reason: str = "") -> int:
    """Runs a verb. Returns 1 when a table is not as it should be. Raises SluiceError."""
    return _run(order, at, Terminal(as_json=as_json, reason=reason))


def _run(order: Order, at: Access, terminal: Terminal) -> int:
    order.run(at, terminal)
    return 1 if terminal.failed else 0


def run_everywhere(order: Order, conf: Path, *, as_json: bool, **options: str | int | Path | None) -> int:
    """Runs a verb for each destination of the configuration, and goes on at the next when one fails. Returns the
    highest exit code."""
    service, _ = config.load_service(conf)
    names = config.destinations(service)
    if not names:
        hint = "Add {destination}/instance.properties."
        raise ConfigError("no destination is configured", place=str(conf), hint=hint)
    codes = []
    for name in names:
        terminal = Terminal(as_json=as_json, destination=name if len(names) > 1 else "")
        try:
            codes.append(_run(order, access_of(name, conf=conf, **options), terminal))  # type: ignore[arg-type]
        except SluiceError as error:
            terminal.refused(error)
            codes.append(1)
    return max(codes)


def access_of(
    name: str,
    *,
    lake: str | None = None,
    conf: Path | None = None,
    client: int = 1001,
    spark: str = "",
    spark_token: str = "",
    service: str | None = None,
    token: str = "",
    declared: Settings | None = None,
) -> Access:
    """What a verb works with. Without `conf`, the service is at the URL `service`. `declared`: by a defs.yaml, where
    one is given."""
    layouts, catalog = (declared.layouts, declared.catalog_rules) if declared else (None, None)
    known = None
    if lake:
        from spark_jobs.catalog.notes import noted_rules
        from spark_jobs.lake.tables import Lake
        from spark_jobs.union.settled import noted_unions

        catalog = catalog or noted_rules(Lake(lake), name, client)
        unions = declared.unions if declared else noted_unions(Lake(lake), name)
        known = Lake(lake, catalog=catalog, layouts=layouts, unions=unions)
    return Access(
        name,
        client,
        lambda: connector_of(name, conf, service, token, client),
        lambda: _sessions(spark, spark_token, lake or ""),
        known,
        conf,
        declared=Declared.of(declared) if declared else Declared(),
    )


def _sessions(spark: str, token: str, lake: str) -> Sessions:
    from spark_jobs.session import Sessions

    return Sessions(spark, token, lake)


def connector_of(name: str, conf: Path | None, url: str | None, token: str, client: int) -> Connector:
    """A client of the service at `url`; without it, of the one that the configuration describes."""
    if conf is None:
        return Connector(url, name, client_id=client, token=token or None, trust=Trust(authorities()), follow_seconds=0)
    service, _ = config.load_service(conf)
    doors = None if url else local_doors(service)
    there, rows = (url, None) if doors is None else (doors.http, doors.flight)
    trust = Trust(authorities(service.tls_ca))
    return Connector(there, name, flight_url=rows, client_id=client, token=token or token_of(service), trust=trust)

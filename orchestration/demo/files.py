"""The demo's configuration of the service and of Dagster: the files that a user writes for their own server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestration.demo import shop
from orchestration.stack.defs import write_component
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import Ports

DESTINATION = "shop"
RING_KILOBYTES = 256 << 10
_SOLD = ("orders", "order_items", "payments")
PASSWORD_VARIABLE = "SLUICE_DEMO_PASSWORD"  # noqa: S105  the variable's name


def write_conf(conf: Path, ports: Ports, zookeeper: str, mysql: MySqlServer, start: tuple[str, int]) -> None:
    """Writes Canal's two properties files. The password stays in the environment."""
    service = {
        "canal.ip": "127.0.0.1",
        "canal.metrics.pull.port": ports.http,
        "sluice.flight.port": ports.flight,
        "canal.withoutNetty": "true",  # nobody uses Canal's protocol here
        "canal.zkServers": zookeeper,
        "canal.instance.memory.buffer.size": RING_KILOBYTES,
        "canal.instance.memory.buffer.memunit": 1024,
    }
    instance = {
        "canal.instance.master.address": f"{mysql.host}:{mysql.port}",
        "canal.instance.master.journal.name": start[0],
        "canal.instance.master.position": start[1],
        "canal.instance.dbUsername": mysql.user,
        "canal.instance.dbPassword": f"${{{PASSWORD_VARIABLE}}}",
        "canal.instance.filter.regex": rf"{shop.DATABASE}\\..*",
    }
    _write_properties(conf / "canal.properties", service)
    _write_properties(conf / DESTINATION / "instance.properties", instance)


def write_defs(
    defs: Path, conf: Path, ports: Ports, lake: Path, spark: str, settings: Mapping[str, object] | None = None
) -> None:
    """Writes Dagster's component. Tables begin with their rows of before the capture, so all counts must be exact.
    `settings` are more of its attributes."""
    attributes = {
        "destination": DESTINATION,
        "lake": str(lake),
        "conf": str(conf),
        "service": {"http": f"http://127.0.0.1:{ports.http}", "flight": f"grpc://127.0.0.1:{ports.flight}"},
        "spark": spark,
        "catalog": "spark_catalog",
        "tables": [f"{shop.DATABASE}.{table}" for table in shop.TABLES],
        "complete": True,
        "snapshot": "initial",
        "report_seconds": 60,  # the mart is made again that often
    }
    write_component(defs / DESTINATION / "defs.yaml", attributes | dict(settings or {}))


def write_mart(defs: Path, lake: Path, spark: str) -> None:
    """Writes the component of the mart downstream of the shop: what was sold a day, by channel."""
    orders, items, payments = (f"{{{shop.DATABASE}.{table}}}" for table in _SOLD)
    sold = f"SELECT order_id, sum(quantity * price) AS sold FROM {items} GROUP BY order_id"  # noqa: S608
    paid = f"SELECT order_id, sum(amount) AS paid FROM {payments} GROUP BY order_id"  # noqa: S608
    whole = f"{orders} o {{kind}} JOIN ({sold}) i ON i.order_id = o.id {{kind}} JOIN ({paid}) p ON p.order_id = o.id"
    of_a_day = "date(o.placed_at) AS day, o.channel, count(*) AS orders, sum(i.sold) AS sold, sum(p.paid) AS paid"
    attributes = {
        "table": "mart.daily_sales",
        "destination": DESTINATION,
        "lake": str(lake),
        "spark": spark,
        "tables": [f"{shop.DATABASE}.{table}" for table in _SOLD],
        "query": f"SELECT {of_a_day} FROM {whole.replace('{kind}', 'LEFT')} GROUP BY ALL ORDER BY day, channel",  # noqa: S608
        # The shop writes an order, its items and its payment in one transaction.
        "contradictions": f"SELECT count(*) FROM {whole.replace('{kind}', 'FULL')} "  # noqa: S608
        "WHERE o.id IS NULL OR i.order_id IS NULL OR p.order_id IS NULL",
    }
    write_component(defs / "mart" / "defs.yaml", attributes, "orchestration.demo.mart.SqlMart")


def _write_properties(file: Path, settings: dict[str, object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))

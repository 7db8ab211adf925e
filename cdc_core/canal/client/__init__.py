"""Canal's client in Python: connectors to one server or to a cluster, and consumers that hand events to a handler.

    with CanalConnector("127.0.0.1", 11111, "example", user="canal", password="secret") as connector:
        connector.subscribe("shop\\\\..*")
        Consumer(connector, PrintOrders()).run()

It speaks Canal's TCP protocol, so it works with Canal's own server as well. Nothing here knows a door of this service.
"""

from cdc_core.canal.client.cluster import ClusterCanalConnector
from cdc_core.canal.client.connector import CanalConnector
from cdc_core.canal.client.consume import Consumer, Policy
from cdc_core.canal.client.events import Boundary, Message, Row, Statement
from cdc_core.canal.client.handler import Handler

__all__ = [
    "Boundary",
    "CanalConnector",
    "ClusterCanalConnector",
    "Consumer",
    "Handler",
    "Message",
    "Policy",
    "Row",
    "Statement",
]

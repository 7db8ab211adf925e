"""The nodes that a Java Canal 1.1.9 and its client keep in ZooKeeper, byte for byte but for names and places."""

from __future__ import annotations

from kazoo.client import KazooClient

SERVER, STANDBY, CONSUMER = "10.0.0.1:11111", "10.0.0.2:11111", "10.0.0.9:54788"


def cursor(journal: str, position: int, timestamp: int, source: str = "localhost:33061") -> bytes:
    """The cursor's node of a client. `timestamp` is in milliseconds."""
    host, _, port = source.partition(":")
    return (
        '{"@type":"com.alibaba.otter.canal.protocol.position.LogPosition","identity":{"slaveId":-1,"sourceAddress":'
        f'{{"address":"{host}","port":{port}}}}},"postion":{{"gtid":"","included":false,"journalName":"{journal}",'
        f'"position":{position},"serverId":1,"timestamp":{timestamp}}}}}'
    ).encode()


def java_nodes(destination: str = "example", source: str = "localhost:33061") -> dict[str, bytes]:
    """A destination that runs, with a standby server, and one client that reads."""
    root = f"/otter/canal/destinations/{destination}"
    return {
        "/otter/canal": b"",
        f"/otter/canal/cluster/{SERVER}": b"",
        f"/otter/canal/cluster/{STANDBY}": b"",
        f"{root}/cluster/{SERVER}": b"",
        f"{root}/cluster/{STANDBY}": b"",
        f"{root}/running": f'{{"active":true,"address":"{SERVER}"}}'.encode(),
        f"{root}/1001/cursor": cursor("mysql-bin.000001", 35934751, 1795253009000, source),
        f"{root}/1001/filter": b"bench\\.t",
        f"{root}/1001/running": f'{{"active":true,"address":"{CONSUMER}","clientId":1001}}'.encode(),
    }


def write_nodes(client: KazooClient, nodes: dict[str, bytes]) -> None:
    for path, value in nodes.items():
        client.ensure_path(path)
        client.set(path, value)

"""Our identity among the replicas of a server, and the server that the cursors belong to."""

from __future__ import annotations

import socket

import pytest

from cdc_core.config import InstanceConfig
from cdc_core.destination.servers import address_of_cursors
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.source.settings import source_settings


def config(destination: str = "shop", zk_servers: str = "zk:2181", **keys: object) -> InstanceConfig:
    given = {
        "canal.instance.destination": destination,
        "canal.zkServers": zk_servers,
        "canal.instance.mysql.slaveId": 7,
    }
    return InstanceConfig.model_validate(given | keys)


def test_servers_that_take_turns_are_one_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers on any host share one id, so that the dump of the next ends that of a paused one. Without ZooKeeper each
    host has its own id, and two destinations always differ."""
    ours, alone = source_settings(config()), source_settings(config(zk_servers=""))
    assert source_settings(config("stock")).replica_uuid != ours.replica_uuid
    assert source_settings(config(zk_servers="other:2181")).replica_uuid != ours.replica_uuid
    assert source_settings(config("stock", "")).report_host != alone.report_host

    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    there = source_settings(config())
    assert (there.replica_uuid, there.report_host) == (ours.replica_uuid, ours.report_host)
    assert source_settings(config(zk_servers="")).replica_uuid != alone.replica_uuid
    assert len(source_settings(config("d" * 80)).report_host) <= 60


def test_the_cursors_server_by_any_of_its_names() -> None:
    """The cursors may name the master or the standby; without a match it is the master."""
    pair = config(**{"canal.instance.master.address": "127.0.0.1:1", "canal.instance.standby.address": "127.0.0.1:2"})
    there = EntryPosition("mysql-bin.000001", 4)
    assert address_of_cursors(pair, [None, LogPosition("localhost", 2, there)]) == "127.0.0.1:2"
    assert address_of_cursors(pair, [LogPosition("127.0.0.1", 9, there)]) == "127.0.0.1:1"
    assert address_of_cursors(pair, []) == "127.0.0.1:1"

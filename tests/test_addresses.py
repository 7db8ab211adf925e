"""Who we are among a server's replicas, and which server the cursors belong to."""

from __future__ import annotations

import socket

import pytest

from cdc_core.addresses import address_of, source_settings
from cdc_core.config import InstanceConfig
from cdc_core.position import EntryPosition, LogPosition


def config(destination: str = "shop", zk_servers: str = "zk:2181", **keys: object) -> InstanceConfig:
    given = {
        "canal.instance.destination": destination,
        "canal.zkServers": zk_servers,
        "canal.instance.mysql.slaveId": 7,
    }
    return InstanceConfig.model_validate(given | keys)


def test_servers_that_take_turns_are_one_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """On whatever host, so that the next one's dump ends the one that a paused server left; without ZooKeeper each host
    is one, and two destinations are always two."""
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
    """Of the standby too; the master when they are of neither."""
    pair = config(**{"canal.instance.master.address": "127.0.0.1:1", "canal.instance.standby.address": "127.0.0.1:2"})
    there = EntryPosition("mysql-bin.000001", 4)
    assert address_of(pair, [None, LogPosition("localhost", 2, there)]) == "127.0.0.1:2"
    assert address_of(pair, [LogPosition("127.0.0.1", 9, there)]) == "127.0.0.1:1"
    assert address_of(pair, []) == "127.0.0.1:1"

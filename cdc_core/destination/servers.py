"""The servers that one destination may read: its master and its standby, and which of them its cursors belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cdc_core.config.models import InstanceConfig
from cdc_core.position import LogPosition
from cdc_core.source.failover import FailoverRule
from cdc_core.source.heartbeat import Heartbeat
from cdc_core.source.same_host import same_host
from cdc_core.source.settings import SourceSettings, source_settings
from cdc_core.source.start.tree import Configured


def address_of_cursors(config: InstanceConfig, cursors: Iterable[LogPosition | None]) -> str:
    """The address of the server that the cursors belong to, where that is the master or the standby; else the
    master's."""
    theirs = {(cursor.address, cursor.port) for cursor in cursors if cursor is not None}
    return next((own for own in config.sources if any(_is(own, *their) for their in theirs)), config.sources[0])


def _is(address: str, host: str, port: int) -> bool:
    own, _, own_port = address.rpartition(":")
    return int(own_port) == port and same_host(own, host)


def other_address(config: InstanceConfig, address: str) -> str:
    """The address of the other server; empty where there is none."""
    return next((other for other in config.sources if other != address), "")


def make_heartbeat(
    config: InstanceConfig, address: str, settings: SourceSettings, on_failed: Callable[[str], None]
) -> Heartbeat | None:
    """The heartbeat of the server at `address`, which `settings` reach; it may call for the other one. None where none
    is configured."""
    if not config.detecting:
        return None
    other = other_address(config, address)
    rule = FailoverRule(config.detecting_sql, config.detecting_seconds, config.detecting_threshold, config.heartbeat_ha)
    return Heartbeat(config.destination, rule, settings, source_settings(config, other) if other else None, on_failed)


def role_of(config: InstanceConfig, address: str) -> str:
    return "master" if address == config.sources[0] else "standby"


def master(config: InstanceConfig) -> Configured:
    address = config.sources[0]
    return Configured(address, config.journal_name, config.position, config.timestamp, config.gtid)


def standby(config: InstanceConfig) -> Configured | None:
    if not config.standby_address:
        return None
    return Configured(
        config.sources[1],
        config.standby_journal_name,
        config.standby_position,
        config.standby_timestamp,
        config.standby_gtid,
    )

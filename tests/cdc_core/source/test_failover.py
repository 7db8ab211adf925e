"""When the other server is read: counts in, a step out; and a heartbeat that is driven by hand."""

from __future__ import annotations

import pytest

from cdc_core.config import InstanceConfig
from cdc_core.contract.failover import Detected, Switch
from cdc_core.destination.servers import address_of_cursors, other_address, role_of
from cdc_core.gtid import GtidPosition
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.source.failover import FailoverRule, Step, after_beat
from cdc_core.source.settings import source_settings
from cdc_core.source.start.continuity import missing_in_mariadb

RULE = FailoverRule("select 1", 3, 3, switches=True)
ALONE = FailoverRule("select 1", 3, 3, switches=False)
OTHER = "db2:3306"
AT = EntryPosition("mysql-bin.000007", 1234)


@pytest.mark.parametrize(
    ("rule", "failures", "other", "answers", "step"),
    [
        (RULE, 0, OTHER, None, Step.STAY),
        (RULE, 2, OTHER, None, Step.STAY),
        (RULE, 3, OTHER, None, Step.ASK),
        (RULE, 9, OTHER, None, Step.ASK),
        (RULE, 3, OTHER, True, Step.SWITCH),
        (RULE, 3, OTHER, False, Step.STAY),
        (RULE, 9, "", None, Step.STAY),
        (ALONE, 9, OTHER, None, Step.STAY),
        (RULE, 2, OTHER, True, Step.STAY),
    ],
)
def test_a_beat(rule: FailoverRule, failures: int, other: str, answers: bool | None, step: Step) -> None:
    """From the threshold on the other server is asked, at each beat, until it answers."""
    assert after_beat(rule, failures, other, answers) is step


def config(**changes: object) -> InstanceConfig:
    known = {"destination": "shop", "address": "db1", "standby_address": "db2:3307"}
    return InstanceConfig.model_validate(known | changes)


def test_the_server_that_cursors_belong_to() -> None:
    """The master's where they belong to neither, or there are none."""
    known = config()
    assert known.sources == ("db1:3306", "db2:3307")
    assert address_of_cursors(known, []) == address_of_cursors(known, [None]) == "db1:3306"
    assert address_of_cursors(known, [None, LogPosition("db2", 3307, AT)]) == "db2:3307"
    assert address_of_cursors(known, [LogPosition("db3", 3306, AT)]) == "db1:3306"
    assert (other_address(known, "db2:3307"), other_address(config(standby_address=""), "db1:3306")) == ("db1:3306", "")
    assert (role_of(known, "db1:3306"), role_of(known, "db2:3307")) == ("master", "standby")
    assert source_settings(known).address == "db1:3306"
    assert source_settings(known, "db2:3307").address == "db2:3307"


def test_what_a_heartbeat_has_found_as_json() -> None:
    """Without a heartbeat there is no count of its failures; the last switch is reported with servers and time."""
    assert Detected("master").to_dict() == {"role": "master", "failed_heartbeats": None, "switched": None}
    found = Detected("standby", 2, 1, Switch("db1:3306", "db2:3306", "2 heartbeats failed in a row", 1_700_000_000.0))
    assert found.to_dict() == {
        "role": "standby",
        "failed_heartbeats": 2,
        "switched": {
            "from": "db1:3306",
            "to": "db2:3306",
            "why": "2 heartbeats failed in a row",
            "at": 1_700_000_000.0,
        },
    }


@pytest.mark.parametrize(
    ("gtid", "state", "missing"),
    [
        ("0-1-9", "0-1-9", ""),
        ("0-1-9", "0-1-12,0-2-15", ""),
        ("0-1-9", "0-1-8,0-2-15", "0-1-9"),
        ("0-1-9,3-1-4", "0-1-9", "3-1-4"),
        ("0-1-9", "", "0-1-9"),
    ],
)
def test_mariadb_that_lost_a_transaction(gtid: str, state: str, missing: str) -> None:
    """Also where the promoted server has given its number once more."""
    assert missing_in_mariadb(GtidPosition.parse(gtid), state) == missing


def test_cursors_that_move() -> None:
    """All at once; an epoch that repeats nothing says where it began, until there is one that may."""
    cursors, there = Cursors(MemoryNodes(), "shop"), LogPosition("db2", 3306, EntryPosition("mysql-bin.000001", 4))
    for client in (1001, 1002):
        cursors.write(client, LogPosition("db1", 3306, AT), AT, source="one")
    assert cursors.source(1001, LogPosition("db1", 3306, AT)) == "one"
    cursors.move([1001, 1002], there, "two", seamless=[1001])
    assert (cursors.read(1001), cursors.acked(1001)) == (there, None)
    assert (cursors.source(1001, there), cursors.source(1001, LogPosition("db3", 3306, AT))) == ("two", "")
    first, second = cursors.epoch(1001), cursors.epoch(1002)
    assert (first.number, first.moved, first.seamless) == (1, 1, {1: AT.version()})
    assert (second.number, second.moved, second.seamless) == (1, 1, {})
    cursors.move([1001], LogPosition("db1", 3306, AT), "one", seamless=[1001])
    assert cursors.epoch(1001).seamless == {1: AT.version(), 2: there.postion.version()}
    cursors.rewind(1001, there)
    assert (cursors.epoch(1001).seamless, cursors.source(1001, there), cursors.epoch(1001).moved) == ({}, "", 2)

"""What is wrong, by each rule: looks one after the other at values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cdc_core.ha.running import DOORS, Running
from cdc_core.monitor.lag import ClientLag, lag_of
from cdc_core.monitor.picture import Picture
from cdc_core.monitor.rules import AlarmLimits, TroubleKind
from cdc_core.monitor.sources import NO_ACCOUNT, SourceView
from cdc_core.monitor.views import ClusterView, cluster_of
from cdc_core.position import EntryPosition, LogPosition
from tests.support.java_canal import SERVER, cursor, java_nodes
from tests.support.monitored import NOW, SOURCE, Looks, source

ROOT = "/otter/canal/destinations/example"
RUNNING, READER, CURSOR = f"{ROOT}/running", f"{ROOT}/1001/running", f"{ROOT}/1001/cursor"


def at(journal: int, offset: int, seconds_ago: float = 1.0) -> LogPosition:
    entry = EntryPosition(f"mysql-bin.{journal:06}", offset, int((NOW - seconds_ago) * 1000))
    return LogPosition("localhost", 33061, entry)


def cluster(changes: Mapping[str, bytes | None] = {}, term: int = 1, name: str = "zk") -> ClusterView:
    nodes = java_nodes() | {CURSOR: cursor("mysql-bin.000003", 300, int(NOW * 1000))} | changes
    left = {path: value for path, value in nodes.items() if value is not None}
    return cluster_of(name, left, made={RUNNING: term} if RUNNING in left else {})


def test_the_lag_in_bytes_files_and_seconds() -> None:
    """From the cursor to the newest place, over files; the age of the cursor's transaction."""
    found = lag_of(at(2, 500, seconds_ago=40), source(), NOW)

    assert (found.nbytes, found.files, found.left_files) == (1800, 1, 1)
    assert found.seconds == pytest.approx(40)
    assert found.left_seconds == pytest.approx(86_400 - 40)


def test_a_client_at_the_end_has_no_lag() -> None:
    """However old its last transaction is; also if it has read on since the source was asked."""
    assert lag_of(at(3, 300, seconds_ago=5000), source(), NOW).seconds == 0
    assert lag_of(at(3, 310), source(), NOW).nbytes == 0
    assert lag_of(at(3, 300), source(), NOW).left_seconds is None


def test_what_waits_is_no_older_than_the_last_look_without() -> None:
    """A source that was quiet for an hour does not make the first new row an hour old."""
    assert lag_of(at(3, 100, seconds_ago=3600), source(), NOW, level=NOW - 5).seconds == pytest.approx(5)


def test_an_unknown_lag_says_why() -> None:
    """No cursor, no account, a server that refuses, a file that was purged, another server's file."""
    refused = SourceView(SOURCE, NOW, error="the account lacks a privilege")
    purged = lag_of(LogPosition("localhost", 33061, EntryPosition("mysql-bin.000000", 4)), source(), NOW)
    other = lag_of(LogPosition("localhost", 33061, EntryPosition("other.000002", 4)), source(), NOW)

    assert lag_of(None, source(), NOW) == ClientLag(why="it has no cursor")
    assert lag_of(at(1, 4), refused, NOW).why == "the account lacks a privilege"
    assert lag_of(at(1, 4), None, NOW).why == "the source was not asked yet"
    assert (purged.purged, purged.nbytes) == (True, None)
    assert not other.purged
    assert "another server" in other.why


def test_a_sound_cluster_has_no_alarm() -> None:
    """Nothing is wrong of one that runs, is read and has read everything, however often it is looked at."""
    looks = Looks()

    assert [looks.look(cluster(), one=source()) for _ in range(200)] == [[]] * 200


def test_lag() -> None:
    """Beyond the limit in seconds, or in bytes where there is one."""
    old = {CURSOR: cursor("mysql-bin.000001", 4, int((NOW - 400) * 1000))}

    assert Looks().look(cluster(old), one=source()) == [TroubleKind.CLIENT_LAG]
    assert Looks(AlarmLimits(lag=500)).look(cluster(old), one=source()) == []
    assert Looks(AlarmLimits(lag=500, lag_bytes=100)).look(cluster(old), one=source()) == [TroubleKind.CLIENT_LAG]


def test_a_binlog_that_is_purged_soon() -> None:
    """In the last tenth of its time, or as it is told; and once it is purged."""
    old = {CURSOR: cursor("mysql-bin.000001", 4, int((NOW - 3300) * 1000))}
    gone = {CURSOR: cursor("mysql-bin.000000", 4, int(NOW * 1000))}
    far = AlarmLimits(lag=100_000)

    assert Looks(far).look(cluster(old), one=source(keep=3600)) == [TroubleKind.BINLOG]
    assert Looks(far).look(cluster(old), one=source(keep=86_400)) == []
    assert Looks(replace(far, binlog=86_000)).look(cluster(old), one=source(keep=86_400)) == [TroubleKind.BINLOG]
    assert Looks(far).look(cluster(gone), one=source()) == [TroubleKind.BINLOG]


def test_no_leader() -> None:
    """At once: receivers are told only of one that lasts."""
    looks = Looks()

    assert looks.look(cluster({RUNNING: None}), one=source()) == [TroubleKind.NO_LEADER]
    assert f"{SERVER}, 10.0.0.2:11111 could" in looks.verdict.troubles[0].text
    assert looks.look(cluster(term=2), one=source()) == []


def test_flapping() -> None:
    """A third change within the time, also when the same server takes it again; then the time passes."""
    looks = Looks(AlarmLimits(changes=3, changes_seconds=600))

    assert [looks.look(cluster(term=term), one=source()) for term in (1, 2, 3)] == [[]] * 3
    assert looks.look(cluster({RUNNING: None}), one=source()) == [TroubleKind.NO_LEADER]
    assert looks.look(cluster(term=4), one=source()) == [TroubleKind.FLAPPING]
    assert looks.look(cluster(term=4), one=source(), after=500) == [TroubleKind.FLAPPING]
    assert looks.look(cluster(term=4), one=source(), after=100) == []


def test_no_client() -> None:
    """Nobody holds the client's node, something waits, and its cursor rests for the time; not where nothing waits."""
    away = {READER: None, CURSOR: cursor("mysql-bin.000003", 100, int(NOW * 1000))}
    level = {READER: None}
    looks = Looks(AlarmLimits(no_client=300, lag=10_000))

    assert looks.look(cluster(away), one=source()) == []
    assert looks.look(cluster(away), one=source(), after=299) == []
    assert looks.look(cluster(away), one=source(), after=1) == [TroubleKind.NO_CLIENT]
    assert looks.look(cluster(), one=source()) == []
    assert looks.look(cluster(level), one=source(), after=10_000) == []


def test_no_client_where_the_lag_is_unknown() -> None:
    """A Java Canal's consumer has to hold its node; a run of Sluice's never does."""
    door = {f"{DOORS}/{SERVER}": b'{"http": "http://10.0.0.1:11112", "flight": ""}'}
    java, ours = Looks(), Looks()
    nobody = SourceView(SOURCE, NOW, error=NO_ACCOUNT)

    assert java.look(cluster({READER: None}), one=nobody) == []
    assert java.look(cluster({READER: None}), one=nobody, after=400) == [TroubleKind.NO_CLIENT]
    assert ours.look(cluster({READER: None} | door), one=nobody) == []
    assert ours.look(cluster({READER: None} | door), one=nobody, after=400) == []


def test_a_destination_without_a_client() -> None:
    """It has the same time to get one."""
    none = {path: None for path in java_nodes() if "/1001/" in path} | {CURSOR: None}
    looks = Looks()

    assert looks.look(cluster(none)) == []
    assert looks.look(cluster(none), after=301) == [TroubleKind.NO_CLIENT]


def test_an_account_that_may_not_see() -> None:
    """The source is named, lags are unknown, and what was wrong of them before does not end by that."""
    old = {CURSOR: cursor("mysql-bin.000001", 4, int((NOW - 400) * 1000))}
    refused = SourceView(SOURCE, NOW, error="the account lacks a privilege (1227)")
    looks = Looks()

    assert looks.look(cluster(old), one=source()) == [TroubleKind.CLIENT_LAG]
    assert looks.look(cluster(old), one=refused) == [TroubleKind.SOURCE]
    assert sorted(one.trouble.kind for one in looks.alarms.now.values()) == ["client_lag", "source"]
    assert looks.look(cluster(), one=source()) == []
    assert [one.trouble.kind for one in looks.alarms.ended] == ["client_lag", "source"]


def test_a_replica_whose_replication_is_halted() -> None:
    """Clients look level with it, and rows wait at its own source."""
    looks = Looks()

    assert looks.look(cluster(), one=replace(source(), halted=True)) == [TroubleKind.SOURCE]
    assert looks.look(cluster(), one=source()) == []


def test_a_monitor_without_an_account_complains_of_none() -> None:
    """The page says that lags are unknown; that is no trouble of the clusters."""
    assert Looks().look(cluster(), one=SourceView(SOURCE, NOW, error=NO_ACCOUNT)) == []


def test_a_zookeeper_that_is_away() -> None:
    """It is said alone: what was wrong of its destinations does not end, and does not begin anew."""
    looks = Looks()
    looks.look(cluster({RUNNING: None}), cluster(name="zk2"), one=source())

    assert looks.look(ClusterView("zk", away="it hangs"), cluster(name="zk2"), one=source()) == [TroubleKind.CLUSTER]
    assert [one.trouble.kind for one in looks.alarms.now.values()] == ["no_leader", "cluster"]
    began = next(iter(looks.alarms.now.values())).began
    assert looks.look(cluster({RUNNING: None}), cluster(name="zk2"), one=source()) == [TroubleKind.NO_LEADER]
    assert next(iter(looks.alarms.now.values())).began == began
    assert looks.alarms.ended[0].trouble.kind == "cluster"


def test_a_cluster_that_comes_and_goes() -> None:
    """It flaps when it went away the third time."""
    looks = Looks()
    for _ in range(3):
        looks.look(cluster(), one=source())
        looks.look(ClusterView("zk", away="it hangs"), one=source())
    looks.look(cluster(), one=source())

    assert looks.look(cluster(), one=source()) == [TroubleKind.FLAPPING]
    assert "went away 3 times" in looks.verdict.troubles[0].text


def test_nodes_of_an_unknown_form() -> None:
    """They are an alarm of their destination."""
    assert Looks().look(cluster({CURSOR: b"{}"}), one=source()) == [TroubleKind.NODES]


def test_a_destination_that_is_gone_is_forgotten() -> None:
    """Its alarms end, and what was watched of it is dropped."""
    looks = Looks()
    looks.look(cluster({RUNNING: None}), one=source())
    looks.look(cluster_of("zk", {"/otter/canal": b""}))

    assert looks.alarms.now == {}
    assert (looks.watch.destinations, looks.watch.clients) == ({}, {})


def test_the_alarms_that_ended_are_bounded() -> None:
    """The newest hundred are kept."""
    looks = Looks()
    for term in range(300):
        looks.look(cluster({RUNNING: None} if term % 2 else {}), one=source())

    assert len(looks.alarms.ended) == 100


def test_a_clock_that_is_set_back() -> None:
    """Changes of the future count for nothing, and no lag is negative."""
    looks = Looks()
    looks.look(cluster({CURSOR: cursor("mysql-bin.000003", 4, int(NOW * 1000) + 10**9)}), one=source())
    looks.look(cluster(term=2), one=source(), after=-10_000)

    assert looks.verdict.troubles == ()
    assert next(iter(Picture(clusters=(cluster(),)).clients()))[2].running == Running("10.0.0.9:54788", client_id=1001)


def test_a_source_that_was_not_asked_again_is_not_said_to_answer() -> None:
    """After its ZooKeeper was away, until its answer comes."""
    looks = Looks()
    looks.look(cluster(), one=replace(source(), journals=None, error="refused"))
    began = looks.alarms.now["zk", TroubleKind.SOURCE, SOURCE].began
    looks.look(ClusterView("zk", away="it hangs"))
    looks.look(cluster())
    assert looks.alarms.now["zk", TroubleKind.SOURCE, SOURCE].began == began
    looks.look(cluster(), one=source())
    assert looks.alarms.now == {}

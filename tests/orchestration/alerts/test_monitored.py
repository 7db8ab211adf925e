"""The monitor's alarms: which are sent, once, to whom; and receivers that fail or hang."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from cdc_core.errors import ConfigError
from cdc_core.monitor.rules import TroubleKind
from cdc_core.monitor.views import ClusterView, cluster_of
from orchestration.alerts.incidents import QUIET
from orchestration.alerts.kinds import OF_MONITOR, WORDS, Kind
from orchestration.alerts.messages import Message
from orchestration.alerts.monitored import MonitorAlarms, NamedReceiver
from orchestration.alerts.receivers import AlertNotSent, Receiver
from orchestration.alerts.rules import AlertRules, ReceiverRule
from tests.support.java_canal import cursor, java_nodes
from tests.support.monitored import NOW, Looks, source
from tests.support.receivers import WebHook, web_hook
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
RUNNING = "/otter/canal/destinations/example/running"
HOOK = NamedReceiver(url_env="MONITOR_HOOK")


def cluster(name: str = "zk/g1", *, runs: bool = True) -> ClusterView:
    nodes = java_nodes() | {"/otter/canal/destinations/example/1001/cursor": cursor("mysql-bin.000003", 300, int(NOW))}
    return cluster_of(name, {path: value for path, value in nodes.items() if runs or path != RUNNING})


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebHook]:
    with web_hook() as hook:
        monkeypatch.setenv("MONITOR_HOOK", hook.url("s3cr3t"))
        yield hook


def test_each_kind_has_its_words() -> None:
    """What the monitor finds can be sent, and defs.yaml cannot name what it alone finds."""
    assert {Kind(one.value) for one in TroubleKind} == OF_MONITOR | {Kind.BINLOG}
    assert set(WORDS) == set(Kind)
    assert not ReceiverRule(url_env="A").kinds
    assert OF_MONITOR.isdisjoint(AlertRules(to=[ReceiverRule(url_env="A")]).chosen)
    with pytest.raises(ValidationError, match="sluice monitor alone"):
        AlertRules(to=[ReceiverRule(url_env="A")], kinds=[Kind.FLAPPING])
    with pytest.raises(ValidationError, match="sluice monitor alone"):
        ReceiverRule(url_env="A", kinds=[Kind.NO_CLIENT])


def test_what_begins_and_ends_is_said_once(hook: WebHook) -> None:
    """When it has lasted, with what to do, and when it is over; of each cluster by its name."""
    looks, alarms = Looks(), MonitorAlarms([HOOK])
    for _ in range(30):
        looks.look(cluster(runs=False), cluster("zk/g2"), one=source())
        alarms.tell(looks.findings)
    assert hook.titles == ["Sluice zk/g1: no server runs a destination"]
    assert "What to do: Look at the logs of its servers." in hook.posted[0]["message"]

    for _ in range(int(QUIET // 5) + 3):
        looks.look(cluster(), cluster("zk/g2"), one=source())
        alarms.tell(looks.findings)
    assert hook.titles[1:] == ["Sluice zk/g1: a destination runs again"]


def test_what_is_brief_is_not_said(hook: WebHook) -> None:
    """A server that hands over is no alarm."""
    looks, alarms = Looks(), MonitorAlarms([HOOK])
    for at in range(60):
        looks.look(cluster(runs=at % 10 > 0), one=source())
        alarms.tell(looks.findings)

    assert hook.titles == []


def test_a_zookeeper_that_is_away_ends_nothing(hook: WebHook) -> None:
    """It is said itself; the trouble of its destination is not said to be over, and not said again."""
    looks, alarms = Looks(), MonitorAlarms([HOOK])
    for view in [cluster(runs=False)] * 20 + [ClusterView("zk/g1", away="it hangs")] * 60 + [cluster(runs=False)] * 40:
        looks.look(view, one=source())
        alarms.tell(looks.findings)

    assert hook.titles == [
        "Sluice zk/g1: no server runs a destination",
        "Sluice zk/g1: ZooKeeper does not answer",
        "Sluice zk/g1: ZooKeeper answers again",
    ]


def test_a_receiver_that_fails(hook: WebHook) -> None:
    """It is named without its URL, the other one is told, and it gets the message when it takes it again."""
    looks = Looks()
    alarms = MonitorAlarms([HOOK, NamedReceiver(url_file="/no/such/file")])
    hook.status = 500
    for _ in range(20):
        looks.look(cluster(runs=False), one=source())
        alarms.tell(looks.findings)
    assert hook.titles == []
    assert list(alarms.failures) == ["$MONITOR_HOOK", "/no/such/file"]
    assert "500" in alarms.notes()[0]
    assert "s3cr3t" not in str(alarms.notes())

    hook.status = 200
    for _ in range(60):
        looks.look(cluster(runs=False), one=source())
        alarms.tell(looks.findings)
    assert hook.titles == ["Sluice zk/g1: no server runs a destination"]
    assert [*alarms.failures] == ["/no/such/file"]


@contextmanager
def in_trouble(deliver: Callable[[Receiver, Message], None]) -> Iterator[tuple[MonitorAlarms, Looks]]:
    """Alarms whose thread has been given a trouble that is long enough to be said."""
    alarms, looks = MonitorAlarms([], deliver=deliver), Looks()
    alarms.start()
    alarms._receivers = (HOOK,)
    try:
        looks.look(cluster(runs=False), one=source())
        alarms.look(looks.findings)
        until(lambda: alarms._states)
        looks.look(cluster(runs=False), one=source(), after=70)
        alarms.look(looks.findings)
        yield alarms, looks
    finally:
        alarms.stop()


def test_a_receiver_that_hangs_holds_up_no_look() -> None:
    """`look` returns at once; when the receiver answers, the newest look counts."""
    entered, go = threading.Event(), threading.Event()
    sent: list[Message] = []

    def deliver(_: Receiver, message: Message) -> None:
        entered.set()
        assert go.wait(60)
        sent.append(message)
        raise AlertNotSent("it hung", hint="")

    with in_trouble(deliver) as (alarms, looks):
        assert entered.wait(60)
        for _ in range(100):
            looks.look(cluster(runs=False), one=source())
            alarms.look(looks.findings)
        go.set()
        until(lambda: alarms.failures)
        assert len(sent) >= 1


def test_an_error_of_ours_ends_no_alarms() -> None:
    """The thread goes on with the next look, and the page says meanwhile that nobody is told."""
    sent: list[Message] = []

    def deliver(_: Receiver, message: Message) -> None:
        sent.append(message)
        if len(sent) == 1:
            raise RuntimeError("s3cr3t")

    with in_trouble(deliver) as (alarms, looks):
        until(lambda: alarms.failures)
        assert alarms.notes() == ["Alarms do not reach anybody: RuntimeError"]
        looks.look(cluster(runs=False), one=source())
        alarms.look(looks.findings)
        until(lambda: len(sent) == 2 and not alarms.failures)


def test_a_url_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The monitor does not start with it, and the error does not have it."""
    monkeypatch.setenv("MONITOR_HOOK", "nothing://s3cr3t")
    with pytest.raises(ConfigError, match="does not know the schema") as caught:
        MonitorAlarms([HOOK]).start()
    assert "s3cr3t" not in str(caught.value)
    monkeypatch.delenv("MONITOR_HOOK")
    with pytest.raises(ConfigError, match="no such environment variable"):
        MonitorAlarms([HOOK]).start()


def test_without_apprise_the_error_names_the_extra() -> None:
    """The monitor itself needs no extra."""
    code = (
        "import os, sys; sys.modules['apprise'] = None; os.environ['A'] = 'json://localhost'\n"
        "from orchestration.alerts.monitored import MonitorAlarms, NamedReceiver\n"
        "assert 'dagster' not in sys.modules\n"
        "MonitorAlarms([]).start()\n"
        "try: MonitorAlarms([NamedReceiver(url_env='A')]).start()\n"
        "except Exception as error: print(error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)

    assert done.stdout.strip() == "Install it: pip install 'sluice-cdc[alerts]'.", done.stderr

"""The sensor of alerts: what it finds wrong, over a double of the service, and how it tells it, to real receivers."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.test_utils import instance_for_test

from cdc_core.client.failures import unavailable
from cdc_core.contract.expiry_report import ExpiryReport, Left
from cdc_core.contract.snapshot import Snapshot
from cdc_core.contract.status import ErrorReport, Status
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import ConfigError
from orchestration.alerts.incidents import Condition, Look
from orchestration.alerts.kinds import Kind
from orchestration.alerts.messages import Message
from orchestration.alerts.receivers import SENDING, AlertNotSent, send
from orchestration.alerts.rules import AlertRules, ReceiverRule
from orchestration.loading import load_folder
from orchestration.names import Names
from orchestration.sensors import alerting, conditions
from orchestration.sensors.alerting import alerts_sensor
from orchestration.sensors.conditions import of_checks, of_runs, of_silence, of_status, promised_lag
from orchestration.sensors.round import Round
from orchestration.settings import Settings
from orchestration.stack.defs import write_component
from spark_jobs.lake.consent import PROPOSAL
from tests.support.canal_double import MemoryCanal, position
from tests.support.dagster_runs import SHOP, nothing
from tests.support.receivers import WebHook, web_hook

TOKEN = "s3cr3t-T0KEN"
NOW = 1_800_000_000.0
ORDERS = dg.AssetKey(["delta", "shop", "shop", "orders"])
CHECKS = [dg.AssetCheckKey(ORDERS, name) for name in ("key_unique", "rows_add_up", "takes_changes", "amounts")]


def known(alerts: dict[str, Any] | None = None, **settings: Any) -> Settings:
    rules = AlertRules.model_validate({"to": [{"url_env": "SLUICE_ALERT_URL"}], **(alerts or {})})
    return Settings(destination="shop", lake="/lake", alerts=rules, **settings)


def table(name: str, reason: str = "total does not fit") -> StoppedTable:
    return StoppedTable(name, reason, "Run `sluice copy DESTINATION shop.orders`.", position(1))


class Troubled(MemoryCanal):
    """A service whose status has the client, and whatever a test puts into `changes`; it may be `away`."""

    def __init__(self) -> None:
        super().__init__(batches=1)
        self.changes: dict[str, Any] = {}
        self.away = False

    def status(self) -> Status:
        if self.away:
            raise unavailable("http://127.0.0.1:1", "connection refused")
        return replace(super().status(), clients=(self.client_status(),), **self.changes)

    @contextmanager
    def connect(self) -> Iterator[Troubled]:
        yield self


def found(look: Look) -> list[tuple[str, str]]:
    return [(one.kind, one.subject) for one in look.conditions]


def at(canal: Troubled, **settings: Any) -> Look:
    return of_status(known(**settings), canal.status(), NOW)


def test_a_healthy_destination_has_no_trouble() -> None:
    """All kinds are looked at but the binlogs, of which the service has no report yet."""
    assert at(Troubled()) == Look([], {Kind.BINLOG})


def test_stopped_tables_are_told_with_their_remedy() -> None:
    """The destination's name is in the remedy."""
    canal = Troubled()
    canal.stopped = [table("shop.orders"), table("shop.users", "paused: a report is made")]

    look = at(canal)

    assert found(look) == [("stopped", "shop.orders"), ("stopped", "shop.users")]
    assert look.conditions[0].remedy == "Run `sluice copy shop shop.orders`."
    assert look.conditions[0].page == "assets/delta/shop/shop/orders"


def test_a_blocked_table_is_told_as_such() -> None:
    """Its remedy is another one than that of an error."""
    canal, remedy = Troubled(), "Run `sluice accept DESTINATION shop.orders`."
    canal.stopped = [StoppedTable("shop.orders", "2 rows fail small", remedy, position(1), kind="blocked")]

    look = at(canal)

    assert found(look) == [("blocked", "shop.orders")]
    assert look.conditions[0].remedy == "Run `sluice accept shop shop.orders`."


def test_tables_whose_snapshot_comes_are_in_no_trouble() -> None:
    """They are stopped as well until it is done."""
    canal = Troubled()
    canal.stopped = [table("shop.orders"), table("shop.users")]
    canal.snapshots.opened = [Snapshot("shop.orders", "id", "run", 60.0, NOW + 60, 0)]

    assert found(at(canal)) == [("stopped", "shop.users")]


def test_a_snapshot_takes_no_table_over_that_waits_for_a_person() -> None:
    """Else one that a killed run left open would hide the stop."""
    canal = Troubled()
    canal.stopped = [table("shop.orders", f"{PROPOSAL}: DROP TABLE orders")]
    canal.snapshots.opened = [Snapshot("shop.orders", "id", "run", 60.0, NOW - 60, 0, broken="altered")]

    assert found(at(canal)) == [("stopped", "shop.orders")]


@pytest.mark.parametrize(
    ("settings", "promised"),
    [
        ({}, 300.0),
        ({"lag_warning_seconds": 60}, 60.0),
        ({"freshness": "30s"}, 30.0),
        ({"freshness": "asap"}, 300.0),
        ({"freshness": "0 3 * * *"}, None),
        ({"trigger": {"minimum_rows": 1000, "freshness_seconds": 900}}, 900.0),
        ({"freshness": "30s", "alerts": {"lag": "5m"}}, 300.0),
        ({"freshness": "0 3 * * *", "alerts": {"lag": "1d"}}, 86_400.0),
    ],
)
def test_how_late_the_lake_may_be(settings: dict[str, Any], promised: float | None) -> None:
    """As `alerts` say; else as the freshness promises, which a cron expression does not."""
    assert promised_lag(known(**settings)) == promised


def test_a_lag_beyond_the_promise_is_told() -> None:
    """With the moment at which the promise was broken."""
    canal = Troubled()
    canal.lag = 30.0
    assert found(at(canal, freshness="30s")) == []
    canal.lag = 75.0
    (one,) = at(canal, freshness="30s").conditions
    assert (one.kind, one.text, one.since) == (Kind.LAG, "rows wait for 75 s, of 30 s that they may", NOW - 45)


@pytest.mark.parametrize(
    ("left", "rules", "text"),
    [
        (Left(3, 1, 86_400.0), {}, ""),
        (Left(3, 1, None), {}, ""),
        (Left(3, 1, 7_200.0), {}, "the binlog at the cursor of client 1001 may be purged in 2 h"),
        (Left(3, 1, 86_400.0), {"binlog": "2d"}, "the binlog at the cursor of client 1001 may be purged in 24 h"),
        (Left(0, 1, -5.0), {}, "the binlog at the cursor of client 1001 may be purged at the next rotation"),
        (None, {}, "the binlog at the cursor of client 1001 is gone; the oldest is mysql-bin.000003"),
    ],
)
def test_a_binlog_that_will_be_purged_is_told(left: Left | None, rules: dict[str, str], text: str) -> None:
    """By default in the last tenth of the time that the source keeps it; only of this client's cursor."""
    canal = Troubled()
    clients = {1001: left, 1002: None}
    canal.changes = {"binlog": ExpiryReport("mysql-bin.000003", 172_800.0, clients, "a warning")}

    look = at(canal, alerts=rules)

    assert [one.text for one in look.conditions] == ([text] if text else [])
    assert look.unknown == set()


def test_a_destination_in_trouble_is_told_with_its_error() -> None:
    """Where it lasts, since when, and what to do; what it does not know while it is down is left as it was."""
    canal = Troubled()
    canal.error = ErrorReport("SourceError", "the binlog is off", "db:3306", "Run reset_DESTINATION.", NOW - 90)
    canal.changes = {"lag_seconds": None}

    look = at(canal)

    expected = Condition(
        Kind.DESTINATION,
        "shop",
        "it has failed: the binlog is off at db:3306",
        "Run reset_shop.",
        NOW - 90,
        "assets/cdc/shop/store",
    )
    assert look == Look([expected], {Kind.LAG, Kind.BINLOG})


def test_a_destination_that_an_operator_stopped_is_told() -> None:
    """Others may not know of it."""
    canal = Troubled()
    canal.changes = {"state": "stopped", "note": "stopped by an operator", "lag_seconds": None}

    (one,) = at(canal).conditions

    assert one.text == "it was stopped by an operator"
    assert "sluice destination start shop" in one.remedy


def test_a_destination_that_is_away_is_told() -> None:
    """The service answers, and does not have it."""
    look = of_status(known(), None, NOW)

    assert found(look) == [("destination", "shop")]
    assert set(look.unknown) == {Kind.STOPPED, Kind.BLOCKED, Kind.LAG, Kind.BINLOG}


def test_a_service_that_is_away_is_told_alone() -> None:
    """What it would say is unknown."""
    look = of_silence(known(), unavailable("http://127.0.0.1:1", "connection refused"))

    assert found(look) == [("service", "http://127.0.0.1:11112")]
    assert set(look.unknown) == {Kind.STOPPED, Kind.BLOCKED, Kind.LAG, Kind.BINLOG, Kind.DESTINATION}


@dg.op
def refuses() -> None:
    raise dg.Failure("the lake is full at /lake. Make room.")


@dg.op
def breaks() -> None:
    raise ValueError(f"connecting as me:{TOKEN}")


def job(name: str, op: dg.OpDefinition, **tags: str) -> dg.JobDefinition:
    @dg.job(name=name, tags=tags, executor_def=dg.in_process_executor)
    def made() -> None:
        op()

    return made


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def run(instance: dg.DagsterInstance, made: dg.JobDefinition, times: int = 1, **tags: str) -> None:
    for _ in range(times):
        made.execute_in_process(instance=instance, raise_on_error=False, tags=tags)


def test_runs_that_fail_again_and_again_are_told(instance: dg.DagsterInstance) -> None:
    """Three in a row by default, with the error of the last; one that succeeds ends it."""
    drain, good = job("drain_shop", refuses, **SHOP), job("drain_shop", nothing, **SHOP)
    run(instance, drain, times=2)
    assert list(of_runs(instance, known(), 3)) == []

    run(instance, drain)
    (one,) = of_runs(instance, known(), 3)
    assert (one.kind, one.subject) == (Kind.RUNS, "drain_shop")
    assert one.text.startswith("the last 3 runs failed, ")
    assert one.text.endswith(" with: the lake is full at /lake. Make room.")
    assert one.page.startswith("runs/")

    run(instance, good)
    assert list(of_runs(instance, known(), 3)) == []


def test_the_text_of_an_error_that_is_not_ours_is_not_told(instance: dg.DagsterInstance) -> None:
    """It may hold anything; its class says enough."""
    run(instance, job("drain_shop", breaks, **SHOP))
    (one,) = of_runs(instance, known(), 1)

    assert one.text.endswith(" with: ValueError")


def test_jobs_count_if_they_start_by_themselves(instance: dg.DagsterInstance) -> None:
    """Once where a schedule starts them: the next comes a day later. Who starts one by hand sees it fail."""
    tags = {"cdc/job_of": "shop"}
    run(instance, job("copy_shop", refuses, **tags), times=5)
    run(instance, job("maintain_shop", refuses, **tags), **{"dagster/schedule_name": "s"})
    run(instance, job("snapshot_shop", refuses, **tags), times=2, **{"dagster/sensor_name": "s"})
    run(instance, job("maintain_other", refuses, **{"cdc/job_of": "other"}), **{"dagster/schedule_name": "s"})
    assert [one.subject for one in of_runs(instance, known(), 3)] == ["maintain_shop"]

    run(instance, job("snapshot_shop", refuses, **tags), **{"dagster/sensor_name": "s"})
    assert [one.subject for one in of_runs(instance, known(), 3)] == ["maintain_shop", "snapshot_shop"]


def test_a_job_fails_until_it_succeeds(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many runs of other jobs, or of a person, have followed."""
    monkeypatch.setattr(conditions, "_RECENT_RUNS", 4)
    tags, daily, by_sensor = {"cdc/job_of": "shop"}, {"dagster/schedule_name": "s"}, {"dagster/sensor_name": "s"}
    run(instance, job("maintain_shop", refuses, **tags), **daily)
    run(instance, job("snapshot_shop", refuses, **tags), times=3, **by_sensor)
    both = ["maintain_shop", "snapshot_shop"]
    assert [one.subject for one in of_runs(instance, known(), 3)] == both
    run(instance, job("verify_shop", nothing, **tags), times=3, **daily)
    assert [one.subject for one in of_runs(instance, known(), 3, both)] == both
    run(instance, job("copy_shop", nothing, **tags), times=3)
    assert [one.subject for one in of_runs(instance, known(), 3, both)] == both

    run(instance, job("maintain_shop", nothing, **tags), **daily)
    assert [one.subject for one in of_runs(instance, known(), 3, both)] == ["snapshot_shop"]


def evaluated(instance: dg.DagsterInstance, check: str, severity: str = "ERROR", **fields: Any) -> None:
    event = dg.AssetCheckEvaluation(
        asset_key=ORDERS, check_name=check, severity=dg.AssetCheckSeverity(severity), **{"passed": False, **fields}
    )
    instance.report_runless_asset_event(event)


def test_red_checks_are_told_and_warnings_apart(instance: dg.DagsterInstance) -> None:
    """Whoever declared them; not that a table is stopped, which is a kind of its own. The remedy is there once."""
    evaluated(instance, "key_unique", description="a key is there twice")
    evaluated(instance, "takes_changes", description="stopped")
    evaluated(instance, "rows_add_up", "WARN", description="3 odd. Reload it.", metadata={"hint": "Reload it."})
    evaluated(instance, "amounts", description="negative")
    evaluated(instance, "amounts", "WARN", description="2 rows wait in the quarantine", metadata={"quarantined": 2})

    one, wait, two = sorted(of_checks(instance, Names("shop"), CHECKS), key=lambda one: one.kind)

    page = "assets/delta/shop/shop/orders?view=checks"
    assert one == Condition(Kind.CHECKS, "shop.orders key_unique", "a key is there twice", page=page)
    assert two == Condition(Kind.WARNINGS, "shop.orders rows_add_up", "3 odd.", "Reload it.", page=page)
    remedy = (
        "Correct the rows at the source, or bring them into the table: `sluice requeue shop shop.orders`, or "
        "`sluice drop shop shop.orders`."
    )
    assert wait == Condition(
        Kind.QUARANTINED, "shop.orders amounts", "2 rows wait in the quarantine", remedy, page=page
    )
    evaluated(instance, "amounts", passed=True)
    assert {one.kind for one in of_checks(instance, Names("shop"), CHECKS)} == {Kind.CHECKS, Kind.WARNINGS}


def test_a_table_that_lands_first_is_blocked_by_its_check(hook: WebHook, instance: dg.DagsterInstance) -> None:
    """The service does not know it, as its log takes all changes. Between two looks at checks it stays so; another
    trouble of its merge is a check that fails."""
    check, seen = dg.AssetCheckKey(ORDERS, "merged"), dict[str, Any](metadata={"kind": "blocked", "hint": "Accept it."})
    evaluated(instance, "merged", description="1 rows fail some. Accept it.", **seen)
    (one,) = of_checks(instance, Names("shop"), [check])
    page = "assets/delta/shop/shop/orders?view=checks"
    assert one == Condition(Kind.BLOCKED, "shop.orders merged", "1 rows fail some.", "Accept it.", page=page)

    tick = Ticks(Troubled(), instance)
    tick.sensor = alerts_sensor(
        tick.settings, [check], tick.canal.connect, Round(lambda: tick.moment), send=send, clock=lambda: tick.moment
    )
    for _ in range(5):
        tick()
    assert (hook.titles, tick.errors) == (["Sluice shop: a table is blocked"], [])

    evaluated(instance, "merged", description="a constraint", metadata={"kind": "stopped"})
    assert [one.kind for one in of_checks(instance, Names("shop"), [check])] == [Kind.CHECKS]


@pytest.mark.parametrize("table", ["shop.orders", "shop_35db.orders", "`a.b`.c d", "a-005f.o__log"])
def test_a_table_is_told_by_its_name_at_the_source(table: str) -> None:
    """Not by that of its asset, in which some characters are escaped: a remedy is a command."""
    names = Names("shop")
    assert names.subject(names.delta(table)) == table


class Ticks:
    """Ticks of a sensor as Dagster makes them: the cursor of the last one that did not fail. `restart` makes another
    sensor, as a code server does that starts again."""

    def __init__(self, canal: Troubled, instance: dg.DagsterInstance, **alerts: Any) -> None:
        self.canal, self.instance, self.settings = canal, instance, known(alerts)
        self.moment = NOW
        self.cursor: str | None = None
        self.errors: list[Exception] = []
        self.lose = False
        self.restart()

    def restart(self) -> None:
        self.sensor = alerts_sensor(
            self.settings,
            CHECKS,
            self.canal.connect,
            Round(lambda: self.moment),
            send=send,
            clock=lambda: self.moment,
        )

    def __call__(self, seconds: float = 30.0) -> SensorExecutionData | None:
        """One tick, so much later. None if it failed."""
        self.moment += seconds
        with dg.build_sensor_context(instance=self.instance, cursor=self.cursor) as context:
            try:
                done = self.sensor.evaluate_tick(context)
            except Exception as error:
                self.errors.append(error)
                return None
        if not self.lose:
            self.cursor = done.cursor
        return done


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebHook]:
    with web_hook() as there:
        monkeypatch.setenv("SLUICE_ALERT_URL", there.url(TOKEN))
        yield there


def test_a_stopped_table_is_told_once_and_once_when_it_goes_on(hook: WebHook, instance: dg.DagsterInstance) -> None:
    """Over restarts of the sensor, by a real web hook."""
    canal = Troubled()
    tick = Ticks(canal, instance, dagster="https://dagster.example.org/")
    canal.stopped = [table(f"shop.t{number:02}") for number in range(12)]
    for _ in range(4):
        tick()
        tick.restart()
    assert hook.titles == ["Sluice shop: 12 tables are stopped"]
    assert "shop.t09, since 2027-01-15 08:00 UTC: total does not fit" in hook.posted[0]["message"]
    assert "and 2 more" in hook.posted[0]["message"]
    assert "https://dagster.example.org/assets/delta/shop/shop/t00" in hook.posted[0]["message"]

    canal.stopped = []
    for _ in range(4):
        done = tick()
        tick.restart()
    assert hook.titles == ["Sluice shop: 12 tables are stopped", "Sluice shop: 12 tables go on"]
    assert [one["type"] for one in hook.posted] == ["failure", "success"]
    assert done is not None
    assert done.skip_message == "nothing is wrong"


def test_a_hook_that_is_down_shows_in_the_ticks_and_gets_it_later(hook: WebHook, instance: dg.DagsterInstance) -> None:
    """A tick that tries and fails is red, with the reason and without the URL; the others say when the next try is."""
    canal = Troubled()
    tick = Ticks(canal, instance)
    canal.stopped, hook.status = [table("shop.orders")], 503
    results = [tick() for _ in range(40)]
    assert hook.asked == len(tick.errors) == 6  # after 30, 60, 120, 240, 480 s, and so on
    for error in tick.errors:
        assert isinstance(error, AlertNotSent)
        assert error.message == "the message was not taken: the answer was 503"
        assert TOKEN not in "".join(traceback.format_exception(error))
    reasons = [one.skip_message or "" for one in results if one is not None]
    assert any(reason.startswith("$SLUICE_ALERT_URL takes no messages; next try in") for reason in reasons)

    hook.status = 200
    for _ in range(40):
        tick()
    assert hook.titles == ["Sluice shop: a table is stopped"]
    assert TOKEN not in (tick.cursor or "")


def test_one_receiver_that_is_down_does_not_delay_the_others(
    hook: WebHook, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other one got is not sent again, though the ticks fail, and Dagster keeps no cursor of them."""
    canal = Troubled()
    with web_hook() as down:
        down.status = 500
        monkeypatch.setenv("SLUICE_OTHER_URL", down.url(TOKEN))
        tick = Ticks(canal, instance, to=[{"url_env": "SLUICE_OTHER_URL"}, {"url_env": "SLUICE_ALERT_URL"}])
        canal.stopped = [table("shop.orders")]
        for _ in range(20):
            tick()
        assert (hook.titles, down.titles) == (["Sluice shop: a table is stopped"], [])
        assert down.asked == len(tick.errors) > 2

        down.status = 200
        for _ in range(40):
            tick()
        assert down.titles == hook.titles


def test_receivers_that_hang_leave_ticks_to_the_other_sensors(hook: WebHook, instance: dg.DagsterInstance) -> None:
    """While the messages of two ticks hang, another one does not wait: its message goes with a later tick."""
    canal = Troubled()
    tick = Ticks(canal, instance)
    canal.stopped = [table("shop.orders")]
    with SENDING:
        tick()
        assert len(hook.titles) == 1
        canal.stopped = []
        with SENDING:
            for _ in range(8):
                tick()
        assert len(hook.titles) == 1
        tick()
    assert hook.titles == ["Sluice shop: a table is stopped", "Sluice shop: a table goes on"]
    assert tick.errors == []


def test_a_tick_that_dagster_gave_up_is_not_said_twice(hook: WebHook, instance: dg.DagsterInstance) -> None:
    """It has sent its message, and its cursor is lost."""
    canal = Troubled()
    tick = Ticks(canal, instance)
    canal.stopped, tick.lose = [table("shop.orders")], True
    tick()
    tick.lose = False
    for _ in range(3):
        tick()

    assert len(hook.titles) == 1


def test_a_service_that_is_away_is_told_after_a_minute(hook: WebHook, instance: dg.DagsterInstance) -> None:
    """Not for a restart; and its stopped tables do not go on meanwhile."""
    canal = Troubled()
    tick = Ticks(canal, instance)
    canal.stopped = [table("shop.orders")]
    tick()
    canal.away = True
    tick()
    canal.away = False
    tick()
    assert hook.titles == ["Sluice shop: a table is stopped"]

    canal.away = True
    for _ in range(10):
        tick()
    assert hook.titles == ["Sluice shop: a table is stopped", "Sluice: the service is not available"]
    assert "http://127.0.0.1:11112" in hook.posted[1]["message"]

    canal.away = False
    for _ in range(5):
        tick()
    assert hook.titles[2:] == ["Sluice: the service is available again"]


def test_kinds_that_nobody_is_told_cost_nothing(
    hook: WebHook, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither runs nor checks are looked up."""
    monkeypatch.setattr(alerting, "of_runs", lambda *_: 1 / 0)
    monkeypatch.setattr(alerting, "of_checks", lambda *_: 1 / 0)
    canal = Troubled()
    canal.stopped, canal.lag = [table("shop.orders")], 1e6
    tick = Ticks(canal, instance, kinds=["lag"])
    for _ in range(4):
        tick()

    assert (hook.titles, tick.errors) == (["Sluice shop: the lake is behind"], [])


def test_checks_are_told(hook: WebHook, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at once a minute, and stay as they were in between."""
    monkeypatch.setattr(alerting, "_CHECKS_SECONDS", 0.05)
    tick = Ticks(Troubled(), instance)
    evaluated(instance, "key_unique", description="a key is there twice")
    for _ in range(5):
        tick()
    assert hook.titles == ["Sluice shop: a check fails"]

    evaluated(instance, "key_unique", passed=True)
    for _ in range(5):
        alerting.time.sleep(0.06)
        tick()
    assert hook.titles[1:] == ["Sluice shop: a check passes again"]


def test_a_wrong_url_is_logged_at_loading_and_fails_the_ticks(
    monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance, caplog: pytest.LogCaptureFixture
) -> None:
    """Though nothing is wrong with the destination, whose other sensors go on; corrected, it is used."""
    monkeypatch.setenv("SLUICE_ALERT_URL", f"slak://{TOKEN}/b")
    tick = Ticks(Troubled(), instance)
    assert "shop: apprise does not know the schema of the URL at $SLUICE_ALERT_URL" in caplog.text
    assert TOKEN not in caplog.text
    for _ in range(4):
        tick()
    assert [type(error) for error in tick.errors] == [ConfigError] * 3
    assert TOKEN not in "".join(traceback.format_exception(tick.errors[0]))

    monkeypatch.setenv("SLUICE_ALERT_URL", "json://host")
    for _ in range(20):
        done = tick()
    assert done is not None
    assert done.skip_message == "nothing is wrong"


def test_a_real_instance_has_no_secret(hook: WebHook, tmp_path: Path) -> None:
    """Neither in its files, when messages are sent and refused, nor in the definitions."""
    canal = Troubled()
    canal.stopped = [table("shop.orders")]
    with instance_for_test(temp_dir=str(tmp_path)) as instance:
        tick = Ticks(canal, instance)
        tick()
        hook.status = 500
        canal.error = ErrorReport("SourceError", "away", "db", "Start it.")
        for _ in range(6):
            tick()
    assert (len(hook.titles), len(tick.errors)) == (1, 3)
    assert TOKEN not in repr(tick.settings) + str(tick.sensor.description) + (tick.cursor or "")
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and TOKEN.encode() in file.read_bytes()]


def test_alerts_are_a_sensor_of_the_destination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where defs.yaml has them; a URL in the file itself is refused, and no error shows it."""
    monkeypatch.setenv("SLUICE_ALERT_URL", f"json://host/{TOKEN}")
    component = {"destination": "shop", "lake": str(tmp_path / "lake"), "tables": ["shop.orders"]}
    service = {"service": {"http": "http://127.0.0.1:1"}}
    alerts: dict[str, Any] = {"alerts": {"to": [{"url_env": "SLUICE_ALERT_URL"}]}}

    def sensors(attributes: dict[str, Any]) -> list[dg.SensorDefinition]:
        write_component(tmp_path / "defs" / "shop" / "defs.yaml", component | service | attributes)
        return [one for one in load_folder(tmp_path / "defs").sensors or [] if isinstance(one, dg.SensorDefinition)]

    assert "shop_alerts" not in [one.name for one in sensors({})]
    made = next(one for one in sensors(alerts) if one.name == "shop_alerts")
    assert made.default_status == dg.DefaultSensorStatus.RUNNING
    assert TOKEN not in str(made.description)
    for wrong in ({"url": f"slack://{TOKEN}"}, f"slack://{TOKEN}", {"url_env": f"slack://{TOKEN}"}):
        (broken,) = sensors({"alerts": {"to": [wrong]}})
        assert broken.name == "broken_shop"
        assert "alerts.to" in str(broken.description)
        with dg.build_sensor_context() as context, pytest.raises(ConfigError) as failed:
            broken.evaluate_tick(context)
        assert TOKEN not in str(broken.description) + "".join(traceback.format_exception(failed.value))


def test_messages_wait_for_the_next_tick_when_time_is_up(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster ends a tick after a minute: what is left is said by the next one."""
    sent: list[str] = []
    monkeypatch.setenv("SLUICE_ALERT_URL", "json://host")
    monkeypatch.setattr(alerting, "_SENDING_SECONDS", -1.0)
    canal = Troubled()
    canal.stopped = [table("shop.orders")]

    def take(_rule: ReceiverRule, message: Message) -> None:
        sent.append(message.title)

    sensor = alerts_sensor(known(), [], canal.connect, Round(), send=take)
    for expected in ([], ["Sluice shop: a table is stopped"]):
        with dg.build_sensor_context(instance=instance) as context:
            sensor.evaluate_tick(context)
        assert sent == expected
        monkeypatch.setattr(alerting, "_SENDING_SECONDS", 25.0)

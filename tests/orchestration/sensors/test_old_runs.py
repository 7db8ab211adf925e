"""Old runs are deleted, with all that Dagster has of them; those that somebody goes by stay."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    GrpcServerCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, TickData, TickStatus
from dagster._core.test_utils import instance_for_test

from cdc_core.errors import ConfigError
from orchestration.names import RUNS_KEPT_VARIABLE
from orchestration.sensors import old_runs
from orchestration.sensors.old_runs import delete_old, delete_ticks, kept_days, old_runs_sensor

NOW = datetime.datetime.now(datetime.UTC)
DRAIN, JOB = {"cdc/destination": "shop"}, {"cdc/job_of": "shop"}


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """A Dagster on SQLite. The newest run of each kind stays in any case."""
    monkeypatch.setattr(old_runs, "_NEWEST", 1)
    with instance_for_test(temp_dir=str(tmp_path)) as made:
        yield made


def ran(instance: dg.DagsterInstance, asset: str, *, fails: bool = False, **tags: str) -> str:
    """A run that has materialized an asset."""

    @dg.asset(name=asset)
    def made() -> None:
        if fails:
            raise ValueError("it fails")

    return dg.materialize([made], instance=instance, tags=tags, raise_on_error=False).run_id


def after(instance: dg.DagsterInstance, days: float, kept: float = 7) -> list[str]:
    """The runs that are left when so many days have passed."""
    delete_old(instance, kept, NOW + datetime.timedelta(days=days))
    return [run.run_id for run in instance.get_runs()]


def test_runs_go_by_their_age(instance: dg.DagsterInstance) -> None:
    """Runs that drained after the days that were asked for, failed runs and jobs after a month, others' never."""
    gone, failed = ran(instance, "a", **DRAIN), ran(instance, "a", fails=True, **DRAIN)
    by_hand, newest_by_hand = ran(instance, "b", **JOB), ran(instance, "b", **JOB)
    foreign, newest = ran(instance, "c", other="one"), ran(instance, "a", **DRAIN)
    ran(instance, "c", other="one")
    everything = {run.run_id for run in instance.get_runs()}

    assert set(after(instance, 6)) == everything
    assert set(after(instance, 8)) == everything - {gone}
    assert set(after(instance, 31)) == everything - {gone, failed, by_hand}
    assert {foreign, newest, newest_by_hand} <= set(after(instance, 1000))


def test_nothing_of_a_deleted_run_is_left(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    """Its events, also those of assets, its database and its captured output."""
    gone, newest = ran(instance, "a", **DRAIN), ran(instance, "a", **DRAIN)
    assert list(tmp_path.rglob(f"*{gone}*"))

    assert after(instance, 8) == [newest]
    assert not list(tmp_path.rglob(f"*{gone}*"))
    events = instance.fetch_materializations(dg.AssetKey("a"), limit=10).records
    assert [one.run_id for one in events] == [newest]
    assert instance.all_logs(newest)


def test_the_last_state_of_an_asset_stays(instance: dg.DagsterInstance) -> None:
    """The run that materialized it last is kept, whatever its age: without it the asset would count as missing."""
    last, newest = ran(instance, "seldom", **DRAIN), ran(instance, "often", **DRAIN)
    assert set(after(instance, 1000)) == {last, newest}
    assert instance.get_latest_materialization_event(dg.AssetKey("seldom")) is not None


def test_it_runs_by_itself_where_the_stack_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere it is there, and somebody starts it. 0 keeps all runs."""
    monkeypatch.delenv(RUNS_KEPT_VARIABLE, raising=False)
    assert old_runs_sensor().default_status == dg.DefaultSensorStatus.STOPPED
    assert kept_days() == 7
    monkeypatch.setenv(RUNS_KEPT_VARIABLE, "0")
    assert old_runs_sensor().default_status == dg.DefaultSensorStatus.RUNNING
    context = dg.build_sensor_context(dg.DagsterInstance.ephemeral())
    assert old_runs_sensor()(context).skip_message == "old runs are kept"  # type: ignore[union-attr]
    monkeypatch.setenv(RUNS_KEPT_VARIABLE, "a week")
    with pytest.raises(ConfigError, match=RUNS_KEPT_VARIABLE):
        kept_days()


def ticked(instance: dg.DagsterInstance, location: str, sensor: str) -> InstigatorState:
    """A sensor of a code location that ticked two hours ago, ten minutes ago, and two hours ago with a run."""
    server = GrpcServerCodeLocationOrigin(host="127.0.0.1", port=1, location_name=location)
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(server, "__repository__"), sensor)
    state = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.DECLARED_IN_CODE)
    instance.add_instigator_state(state)
    for minutes, status in ((120, TickStatus.SKIPPED), (10, TickStatus.SKIPPED), (120, TickStatus.SUCCESS)):
        at = NOW.timestamp() - 60 * minutes
        kind = InstigatorType.SENSOR
        tick = TickData(state.instigator_origin_id, sensor, kind, status, at, run_ids=[], selector_id=state.selector_id)
        instance.create_tick(tick)
    return state


def test_ticks_that_started_nothing_go_after_an_hour(instance: dg.DagsterInstance) -> None:
    """Those of our sensors; not those of others in the same code location, nor of one without us."""
    ours = [ticked(instance, "sluice", name) for name in ("sluice_old_runs", "cdc_shop_backlog", "shop_alerts")]
    others = [ticked(instance, "sluice", "their_own"), ticked(instance, "theirs", "cdc_backlog")]

    assert sorted(delete_ticks(instance, NOW)) == ["cdc_shop_backlog", "shop_alerts", "sluice_old_runs"]
    left = {one: instance.get_ticks(one.instigator_origin_id, one.selector_id) for one in (*ours, *others)}
    assert [sorted(tick.status.value for tick in left[one]) for one in ours] == 3 * [["SKIPPED", "SUCCESS"]]
    assert [len(left[one]) for one in others] == [3, 3]

"""A schedule starts its job only when no run of it is under way."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.test_utils import instance_for_test

from orchestration.jobs.clock import schedule_of, unfinished


@dg.op
def work() -> None:
    """Does nothing."""


@dg.job
def nightly() -> None:
    """A job that a schedule starts."""
    work()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A Dagster on SQLite."""
    with instance_for_test() as made:
        yield made


def add(instance: dg.DagsterInstance, job: str, status: DagsterRunStatus) -> str:
    """A run of a job in this state. Returns its id."""
    server = GrpcServerCodeLocationOrigin(host="127.0.0.1", port=1, location_name="sluice")
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(server, "__repository__"), job)
    run = dg.DagsterRun(job, status=status, remote_job_origin=origin)
    return instance.add_run(run).run_id


def tick(instance: dg.DagsterInstance) -> dg.RunRequest | dg.SkipReason:
    """What the schedule does at its time."""
    schedule = schedule_of("nightly_schedule", nightly, "0 3 * * *", config={"ops": {}}, tags={"a": "b"})
    with dg.build_schedule_context(instance, datetime.datetime.now(datetime.UTC)) as context:
        found = schedule.evaluate_tick(context)
    return (found.run_requests or [dg.SkipReason(found.skip_message)])[0]


@pytest.mark.parametrize(
    "status", [DagsterRunStatus.QUEUED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
)
def test_a_job_that_takes_long_does_not_pile_up(status: DagsterRunStatus, instance: dg.DagsterInstance) -> None:
    """A run that waits or works is named; the next time comes when it has ended."""
    run = add(instance, "nightly", status)
    assert tick(instance) == dg.SkipReason(f"run {run} of nightly has not ended")


def test_a_run_that_ended_or_is_of_another_job_holds_up_nothing(instance: dg.DagsterInstance) -> None:
    """The run has the configuration and the tags that the schedule was given."""
    for status in (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED):
        add(instance, "nightly", status)
    add(instance, "another", DagsterRunStatus.STARTED)
    started = tick(instance)
    assert isinstance(started, dg.RunRequest)
    assert (started.run_config, started.tags["a"]) == ({"ops": {}}, "b")


def test_a_run_that_never_starts_does_not_hold_up_for_ever(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has been starting for an hour is taken for lost; one that waits for its turn is not."""
    monkeypatch.setattr("orchestration.jobs.clock._STARTS", datetime.timedelta(seconds=-60))
    add(instance, "nightly", DagsterRunStatus.STARTING)
    assert not unfinished(instance, "nightly")
    add(instance, "nightly", DagsterRunStatus.QUEUED)
    assert unfinished(instance, "nightly")

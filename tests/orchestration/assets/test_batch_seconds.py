"""Where the age of a batch's rows comes from: the stages add up to it, whatever the clocks say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.contract.claim import Claim
from orchestration.assets.batch_seconds import age, batch_seconds
from orchestration.assets.landed import landed_metadata
from orchestration.assets.metadata import lag_seconds
from spark_jobs.landing.append import Landed
from tests.support.canal_double import MemoryCanal


@pytest.fixture(scope="module")
def claim() -> Claim:
    """Its oldest row was committed at 1000."""
    found = MemoryCanal(batches=1).get_without_ack(10, owner="run")
    assert found is not None
    return found


def test_each_stage_has_its_seconds(claim: Claim) -> None:
    """From the commit of the oldest row until it can be seen, and from there to the ack."""
    known = replace(claim, moments=(1_000.5, 1_000.52, 1_000.6, 1_030.6))
    found = batch_seconds(known, planned=1_032.1, written=1_040.1, acked=1_041.0)
    assert found == {
        "network": 0.5,
        "decode": 0.02,
        "store": 0.08,
        "claim": 30.0,
        "plan": 1.5,
        "write": 8.0,
        "ack": 0.9,
    }
    assert age(found) == pytest.approx(40.1)


def test_what_is_not_known_counts_in_the_next_stage(claim: Claim) -> None:
    """After a restart the service knows no more when it received a row; one of before says nothing at all."""
    restarted = replace(claim, moments=(None, None, None, 1_030.0))
    found = batch_seconds(restarted, planned=0.0, written=1_040.0, acked=1_040.0)
    assert found == {"claim": 30.0, "write": 10.0, "ack": 0.0}
    of_before = replace(claim, moments=())
    assert batch_seconds(of_before, planned=1_032.0, written=1_040.0, acked=1_041.0) == {
        "plan": 32.0,
        "write": 8.0,
        "ack": 1.0,
    }
    assert batch_seconds(replace(claim, execute_times=()), 1.0, 2.0, 3.0) == {}


moments = st.floats(900, 1_100) | st.none()


@given(st.tuples(moments, moments, moments, moments), st.floats(900, 1_100), st.floats(900, 1_100))
def test_the_stages_add_up_to_the_age_when_clocks_differ(
    arrived: tuple[float | None, ...], planned: float, written: float
) -> None:
    """The source, the service and the run each have a clock: no stage is below 0, and none is counted twice."""
    claim = MemoryCanal(batches=1).get_without_ack(10, owner="run")
    assert claim is not None
    found = batch_seconds(replace(claim, moments=arrived), planned, written, written + 1)
    assert all(value >= 0 for value in found.values())
    assert age(found) == pytest.approx(lag_seconds(claim.execute_times, written)["lag_seconds_max"], abs=0.001)


def test_a_landed_batch_has_its_seconds_too(claim: Claim) -> None:
    """The append is what is written; what was before it is planning."""
    known = replace(claim, moments=(1_001.0, 1_001.0, 1_001.0, 1_005.0))
    landed = Landed("shop.orders", 1, seconds=2.0, landed_at=1_010.0)
    assert landed_metadata(known, landed, "run", 1_010.5)["sluice/seconds"] == {
        "network": 1.0,
        "decode": 0.0,
        "store": 0.0,
        "claim": 4.0,
        "plan": 3.0,
        "write": 2.0,
        "ack": 0.5,
    }

"""Callers without permission, or too late, are refused with a reason. Nobody else is affected."""

from __future__ import annotations

import pytest

from cdc_core.errors import AccessDenied, RangeGone
from orchestration.jobs import routine
from spark_jobs.apply.spark_lake import SparkLake
from tests.bad_input.world import MakeWorld, World, until
from tests.support.flight_calls import flight_info, read_split

pytestmark = pytest.mark.integration


def test_a_ticket_for_a_range_that_is_gone(world: World) -> None:
    """After the ack neither the ticket nor a new plan is granted. The answer and the log of the service say so."""
    world.sql("INSERT INTO orders VALUES (1, 'a')")
    claim, connector = world.hold(), world.connector()
    table = f"{world.databases['shop']}.orders"
    (ticket,) = flight_info(connector.flight_url, claim, table).tickets
    connector.ack(claim)
    after = connector.client_status().reached

    for late in (
        lambda: list(read_split(connector.flight_url, ticket)),
        lambda: flight_info(connector.flight_url, claim, table),
    ):
        with pytest.raises(RangeGone, match=f"batch {claim.batch_id} is not outstanding") as caught:
            late()
        assert caught.value.place == "shop, client 1001"
        assert "Claim again" in caught.value.hint
        assert [e for e in world.logged() if caught.value.as_dict().items() <= e.items()]
    assert world.status()["error"] is None
    world.other_goes_on()
    assert connector.client_status().reached == after  # the cursor may follow rows of others


def test_a_range_that_goes_during_a_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback during the run makes the run fail with the reason, and the next claim has the rows."""
    monkeypatch.setattr(routine, "MAX_RETRIES", 0)
    apply = SparkLake.apply

    def late(self: SparkLake, *arguments: object) -> object:
        self.connector.rollback(reason="somebody by hand")
        return apply(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SparkLake, "apply", late)
    world.sql("INSERT INTO orders VALUES (1, 'a')")
    world.read()
    before = world.cursor()

    shown = world.failed(world.run())

    assert "is not outstanding" in shown
    assert "shop, client 1001" in shown
    assert "Claim again" in shown
    assert world.cursor() == before
    world.other_goes_on()
    assert world.drain() == [(1, "a")]


@pytest.mark.parametrize("given", [None, "not-this-one"])
def test_a_token_that_is_missing_or_wrong(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    """Both doors and Dagster say so and reveal no token. With the right token the run succeeds."""
    world = make_world(service={"sluice.token": "the-right-one"})
    world.sql("INSERT INTO orders VALUES (1, 'a')")
    claim, before = world.hold(), world.cursor()
    message = "no token, or a wrong one" if given else "a token is needed"
    stranger = world.connector(token=given or "")
    for call in (
        stranger.status,
        lambda: stranger.ack(claim),
        lambda: flight_info(stranger.flight_url, claim, f"{world.databases['shop']}.orders", token=given),
    ):
        with pytest.raises(AccessDenied, match=message) as caught:
            call()
        assert "sluice.token" in caught.value.hint
    (monkeypatch.setenv if given else lambda *_: monkeypatch.delenv("SLUICE_TOKEN", raising=False))(
        "SLUICE_TOKEN", given or ""
    )

    said, shown = world.tick(), world.failed(world.run())

    for text in (said, shown):
        assert message in text
        assert "sluice.token" in text
    assert "not-this-one" not in world.log.getvalue() + said + shown
    assert [e for e in world.logged() if e.get("error") == "AccessDenied" and e["message"] == message]
    world.other_goes_on()
    assert world.cursor() == before
    monkeypatch.setenv("SLUICE_TOKEN", "the-right-one")
    until(lambda: "flight by" in world.tick(), world.tick)  # a round of ticks shares what the service answered
    assert world.drain() == [(1, "a")]

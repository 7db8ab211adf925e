"""A lake that cannot be written: the batch goes back, the cursor stays, and the run says where and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.jobs import routine
from orchestration.sensors import runs
from tests.bad_input.disk import fill
from tests.bad_input.world import World

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routine, "MAX_RETRIES", 0)
    monkeypatch.setattr(runs, "_FIRST_PAUSE", 600.0)  # longer than it takes to look


def test_a_path_that_cannot_be_written(world: World) -> None:
    """A file stands where the directory should be. Nothing is claimed; the next run gets the rows."""
    file = world.folder / "file"
    file.write_text("not a directory")
    world.write_defs(lake=file / "lake")
    world.sql("INSERT INTO orders VALUES (1, 'a')")

    refused(
        world, "the lake cannot be written: Not a directory", str(file / "lake"), "name another lake", claimed=False
    )

    assert world.drain() == [(1, "a")]


@pytest.mark.in_turn
def test_a_full_disk(world: World, spark_remote: str, small_disk: Path) -> None:
    """There is no room for the files of the table. With room the same rows come, once."""
    world.spark = spark_remote
    lake = small_disk / "lake"
    world.write_defs(lake=lake)
    world.sql("INSERT INTO orders VALUES (1, 'a')")
    world.read()
    assert world.run().success
    ballast = fill(small_disk)
    world.sql("INSERT INTO orders VALUES (2, 'b')")

    refused(world, "No space left on device", str(lake), "room")

    ballast.unlink()
    assert world.run().success
    assert [row["id"] for row in world.rows(lake=lake)] == [1, 2]


def refused(world: World, message: str, place: str, hint: str, *, claimed: bool = True) -> None:
    """The lake is not the part of the service: the service shows that the batch was given back, and why. Without
    `claimed` the lake was looked at before."""
    world.read()
    before = world.cursor()
    shown = world.failed(world.run())
    assert message in shown
    assert place in shown
    assert hint in shown
    given_back = [event for event in world.logged() if event["event"] == "rolled back" and message in event["reason"]]
    assert len(given_back) == (routine.MAX_RETRIES + 1 if claimed else 0)
    assert all(place in event["reason"] for event in given_back)
    assert world.cursor() == before
    assert world.connector().client_status().claims == ()
    assert "next try in" in world.tick()
    world.other_goes_on()

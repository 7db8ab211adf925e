"""What `freshness` may say, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from cdc_core.errors import ConfigError
from orchestration.freshness import Freshness, parse_freshness
from orchestration.settings import Settings


def settings(**changes: Any) -> Settings:
    return Settings(destination="shop", lake="/lake", **changes)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", Freshness()),
        ("30s", Freshness(30)),
        ("5 m", Freshness(300)),
        ("1h", Freshness(3600)),
        ("asap", Freshness(asap=True)),
        ("*/5 * * * *", Freshness(cron="*/5 * * * *")),
    ],
)
def test_the_forms(text: str, meant: Freshness) -> None:
    """A length, the word, or a schedule."""
    assert parse_freshness(text) == meant


@pytest.mark.parametrize("text", ["0s", "soon", "30", "-5s", "5 m 3 s"])
def test_what_is_none_is_refused(text: str) -> None:
    """With what may be written, also in defs.yaml."""
    with pytest.raises(ConfigError, match="is not a freshness"):
        parse_freshness(text)
    with pytest.raises(ValidationError, match="Write 30s"):
        settings(freshness=text)


def test_the_sensor_starts_a_run_in_time() -> None:
    """Early enough for its start."""
    starts = settings(freshness="60s").starts
    assert (starts.kind, starts.freshness_seconds) == ("sensor", 45)
    assert starts.minimum_rows > 10**15
    assert settings(freshness="10s").starts.freshness_seconds == 0


def test_a_schedule_takes_the_place_of_the_sensor() -> None:
    """Other settings of the trigger stay."""
    starts = settings(freshness="0 3 * * *", trigger={"interval_seconds": 9}).starts
    assert (starts.kind, starts.cron, starts.interval_seconds) == ("schedule", "0 3 * * *", 9)


def test_a_run_goes_on_for_fifty_minutes() -> None:
    """As every run does while rows come, unless `max_seconds` says how long."""
    assert settings().limits.max_seconds == 3000
    assert settings(freshness="asap").limits.max_seconds == 3000
    assert settings(freshness="asap", max_seconds=20).limits.max_seconds == 20
    assert settings(freshness="asap").limits.freshness == "asap"


def test_two_that_say_when_runs_start_are_refused() -> None:
    """They could contradict each other."""
    with pytest.raises(ValidationError, match="both say when runs start"):
        settings(freshness="asap", trigger={"minimum_rows": 5})


def test_where_all_tables_land_the_seconds_are_the_merges() -> None:
    """The run that lands is always there; where one table is merged by it, it is paced as declared."""
    lands = settings(freshness="60s", apply="land_first")
    assert (lands.stays, lands.merges_stay, lands.limits.freshness) == (True, False, "asap")
    assert lands.starts == lands.trigger
    assert [lands.merge_starts(tables).freshness_seconds for tables in (0, 1, 8, 100)] == [45, 41, 13, 0]
    mixed = settings(freshness="60s", apply={"mode": "land_first", "tables": {"shop.orders": "merge"}})
    assert (mixed.stays, mixed.limits.freshness) == (False, "60s")
    assert mixed.starts == mixed.merge_starts()
    merged, always = settings(freshness="60s"), settings(freshness="asap", apply="land_first")
    assert (merged.stays, merged.limits.freshness) == (False, "60s")
    assert (always.stays, always.merges_stay) == (True, True)
    assert not settings(apply="land_first").stays
    nightly = settings(freshness="0 3 * * *", apply="land_first")
    assert (nightly.stays, nightly.starts.kind) == (False, "schedule")

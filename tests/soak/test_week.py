"""A week in an hour: its events by a seed, its tables that do not grow, and the times that are made fast."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
import sqlglot

from cdc_core.config.models import InstanceConfig
from orchestration.settings import Settings
from tests.support.week_events import KILL, OTHERS, WATCHED, PassingTables, draw
from tests.support.week_pace import SLOW, WEEK, Pace

HOUR = Pace(3600.0)


def test_a_seed_makes_a_week() -> None:
    """A seed gives the same events again, another seed others; in order, and with a rest at the end."""
    found = draw(5, 3600)
    assert found == draw(5, 3600) != draw(6, 3600)
    assert all(one.at < other.at for one, other in pairwise(found))
    assert found[0].at > 90
    assert found[-1].at < 3420


@pytest.mark.parametrize("seed", range(5))
def test_every_kind_comes_in_each_half(seed: int) -> None:
    """Of an hour; but what is watched for its memory dies in the first half alone, time enough before its end."""
    found = draw(seed, 3600)
    first, second = (Counter(one.what for one in found if (one.at < 1800) == early) for early in (True, False))
    others = {"ddl", "rewind", "restore", "undo", "snapshot", "copy", "maintain", "cut dump", "rotate"}
    both = others | {f"{KILL}{part}" for part in OTHERS}
    assert second.keys() == both
    assert first.keys() == both | {f"{KILL}{part}" for part in WATCHED}
    assert max(one.at for one in found if one.killed in WATCHED) < 1600
    assert second["ddl"] > 15


def test_a_short_soak_has_the_same_events() -> None:
    """As many as fit, closer together."""
    assert {one.what for one in draw(1, 1200)} == {one.what for one in draw(1, 3600)}


def test_passing_tables_do_not_grow() -> None:
    """Each statement is one that MySQL's grammar has, and the tables stay few and small however many there are."""
    tables, kinds = PassingTables(3), Counter[str]()
    for _ in range(400):
        for statement in tables.statements():
            (parsed,) = sqlglot.parse(statement, "mysql")
            assert parsed is not None
            kinds[" ".join(statement.split()[:2])] += 1
        assert {*tables.there} <= {*PassingTables.NAMES}
        assert all(len(columns) <= 4 for columns in tables._columns.values())
        assert all(rows <= 210 for rows in tables._rows.values())
    assert kinds.keys() >= {"CREATE TABLE", "ALTER TABLE", "RENAME TABLE", "TRUNCATE TABLE", "DROP TABLE"}
    assert kinds["DROP TABLE"] > 20


def test_a_week_is_as_long_as_the_soak() -> None:
    """A time is the same part of the soak as of a week, but not shorter than what it is for takes."""
    assert HOUR.of(WEEK) == 3600
    assert HOUR.of(86_400) == pytest.approx(514, abs=1)
    assert HOUR.of(900, 30) == 30
    assert (HOUR.daily(), HOUR.daily(0.5)) == ("0-59/9 * * * *", "4-59/9 * * * *")
    assert (Pace(60).daily(0.5), Pace(WEEK).daily()) == ("0-59/1 * * * *", "0-59/59 * * * *")


def test_the_keys_that_make_time_fast_exist() -> None:
    """And their values are ones that they can have."""
    made = InstanceConfig.model_validate(
        {"canal.instance.destination": "shop", "sluice.store.dir": "store", **HOUR.instance}
    )
    assert made.store_retention_hours == pytest.approx(1 / 7, abs=0.001)
    settings = Settings(destination="shop", lake="lake", **HOUR.defs)  # type: ignore[arg-type]
    assert settings.max_seconds == 30
    assert settings.maintain == "0-59/9 * * * *" != settings.audit


def test_the_report_says_what_is_fast_and_what_is_not() -> None:
    """Within 80 columns."""
    assert all(len(line) <= 80 for line in HOUR.lines())
    assert all(len(f"  {one.what}: {one.why}") <= 110 for one in SLOW)

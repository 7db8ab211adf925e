"""spark_jobs.maintain.retention."""

from __future__ import annotations

import pytest

from cdc_core.errors import ConfigError
from spark_jobs.maintain.retention import RETENTION, LogRetention, log_hours, retention_hours


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("", 168),
        ("interval 1 hour", 168),
        ("interval 2 weeks", 336),
        ("INTERVAL 10 Days", 240),
        ("10 days 30 minutes", 241),
        ("interval 1 month", None),
        ("interval 10 days 1 month", None),
        ("soon", None),
    ],
)
def test_a_week_or_longer(text: str, hours: int | None) -> None:
    """Never below a week; what is not understood deletes nothing."""
    assert retention_hours({RETENTION: text} if text else {}) == hours


def test_a_log_keeps_its_rows_as_its_first_pattern_says() -> None:
    """A log without a merged table keeps all, unless a pattern names it."""
    kept = LogRetention(720, {"shop.audit": None, "shop.events_*": 336})
    assert [kept.of(table, alone=False) for table in ("shop.t", "shop.audit", "shop.events_1")] == [720, None, 336]
    assert [kept.of(table, alone=True) for table in ("shop.t", "shop.events_1")] == [None, 336]


@pytest.mark.parametrize(("text", "hours"), [("", None), ("forever", None), ("7d", 168), ("2w", 336), ("30 d", 720)])
def test_a_time_for_logs(text: str, hours: int | None) -> None:
    """Days or weeks."""
    assert log_hours(text) == hours


@pytest.mark.parametrize("text", ["6d", "200h", "soon", "0w", "-8d"])
def test_less_than_a_week_is_refused(text: str) -> None:
    """So is what is no time."""
    with pytest.raises(ConfigError, match="is not a retention of a log"):
        log_hours(text)

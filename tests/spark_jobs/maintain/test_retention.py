"""spark_jobs.maintain.retention."""

from __future__ import annotations

import pytest

from spark_jobs.maintain.retention import RETENTION, retention_hours


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

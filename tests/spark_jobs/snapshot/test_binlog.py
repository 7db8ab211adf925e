"""Events that the server shows while it writes them, of a connection that fails as MySQL does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pymysql
import pytest
from pymysql.constants import ER

from cdc_core.position import EntryPosition
from spark_jobs.snapshot import binlog
from spark_jobs.snapshot.binlog import changes

HALF = pymysql.err.OperationalError(ER.ERROR_WHEN_EXECUTING_COMMAND, "corrupted data in log event")
DENIED = pymysql.err.OperationalError(ER.ACCESS_DENIED_ERROR, "denied")
LOW, HIGH = EntryPosition("mysql-bin.000001", 4), EntryPosition("mysql-bin.000001", 200)
ROWS = [("mysql-bin.000001", 4, "Table_map", 1, 200, "table_id: 7 (shop.t)")]


class Answers:
    """A cursor: what each SHOW BINLOG EVENTS gets, an error or rows."""

    def __init__(self, *events: Exception | Sequence[tuple[Any, ...]]) -> None:
        self.events = list(events)
        self.found: Sequence[tuple[Any, ...]] = ()

    def execute(self, statement: str) -> None:
        answer = self.events.pop(0) if "EVENTS" in statement else [("mysql-bin.000001", 200)]
        if isinstance(answer, Exception):
            raise answer
        self.found = answer

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        return self.found


class Connection:
    def __init__(self, answers: Answers) -> None:
        self.cursor = lambda: nullcontext(answers)


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binlog.time, "sleep", lambda _: None)


def test_half_an_event_is_asked_for_again() -> None:
    """An event that the server was writing is there a moment later."""
    assert changes(Connection(Answers(HALF, HALF, ROWS)), "shop", "t", LOW, HIGH)  # type: ignore[arg-type]


@pytest.mark.parametrize(("error", "left"), [(HALF, 10), (DENIED, 39)])
def test_an_error_that_stays_is_raised(error: Exception, left: int) -> None:
    """After thirty tries; one of another kind at once."""
    answers = Answers(*[error] * 40)
    with pytest.raises(pymysql.err.OperationalError):
        changes(Connection(answers), "shop", "t", LOW, HIGH)  # type: ignore[arg-type]
    assert len(answers.events) == left

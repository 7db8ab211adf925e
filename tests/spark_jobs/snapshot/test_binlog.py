"""Events that the server shows while it writes them, of a connection that fails as MySQL does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest
from pymysql.constants import ER

from cdc_core.position import EntryPosition
from spark_jobs.snapshot import binlog
from spark_jobs.snapshot.binlog import between, changes, ddl_on, reaches

HALF = pymysql.err.OperationalError(ER.ERROR_WHEN_EXECUTING_COMMAND, "corrupted data in log event")
DENIED = pymysql.err.OperationalError(ER.ACCESS_DENIED_ERROR, "denied")
LOW, HIGH = EntryPosition("mysql-bin.000001", 4), EntryPosition("mysql-bin.000001", 200)
ROWS = [("mysql-bin.000001", 4, "Table_map", 1, 200, "table_id: 7 (shop.t)")]


class Answers:
    """A cursor: what each SHOW BINLOG EVENTS gets, an error or rows."""

    def __init__(
        self, *events: Exception | Sequence[tuple[Any, ...]], files: Sequence[str] = (LOW.journal_name,)
    ) -> None:
        self.events, self.files = list(events), files
        self.connection = SimpleNamespace(use_unicode=True)
        self.found: Sequence[tuple[Any, ...]] = ()

    def execute(self, statement: str) -> None:
        answer = self.events.pop(0) if "EVENTS" in statement else [(name, 200) for name in self.files]
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


def test_a_purged_file_may_have_had_anything() -> None:
    """A statement about any table, and rows of it: only the server could tell. A lake waits for no row of it."""
    high = EntryPosition("mysql-bin.000003", 200)

    def connection() -> Any:
        return Connection(Answers([], [], files=["mysql-bin.000002", "mysql-bin.000003"]))

    assert "mysql-bin.000001" in (ddl_on(connection(), "shop", "t", LOW, high) or "")
    assert changes(connection(), "shop", "t", LOW, high)
    since = between(connection(), LOW, high)
    assert since.ddl_on("shop", "t") is not None
    assert since.changes("shop", "t")
    assert reaches(connection(), LOW, high)

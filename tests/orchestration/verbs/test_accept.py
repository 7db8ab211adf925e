# ruff: noqa: ARG002 - a double takes what the real one takes
"""What a person can have done with a table whose rows fail what is expected, without a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from cdc_core.errors import ConfigError, TableStopped
from orchestration.verbs import accept
from orchestration.verbs.access import Access
from orchestration.verbs.orders import Accept, Requeue
from orchestration.verbs.report import Done, Report
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.expectations.acceptance import Acceptances
from spark_jobs.expectations.expectation import Severity
from spark_jobs.expectations.results import ExpectationResult
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.parked import Parking
from tests.support.local_job import NO_SPARK

RANGE = VersionRange(1, 10, 20)
RESULTS = [ExpectationResult("some", Severity.BLOCK, 3, 1)]


@dataclass
class Heard(Report):
    """What a verb reports."""

    reason: str = "the shop knows"
    done: dict[str, Done] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def one(self, name: str, work: Callable[[], Done], kind: str = "delta") -> None:
        self.done[name] = work()

    def each(
        self, name: str, work: Callable[[], Done], kind: str = "delta", otherwise: Mapping[str, Any] | None = None
    ) -> None:
        self.one(name, work)

    def progress(self, text: str) -> None:
        """Nobody reads it."""

    def accepted(self, table: str, checks: Sequence[str]) -> None:
        self.ended += [f"{table} {check}" for check in checks]


def access(lake: Lake, *stopped: str) -> Access:
    """For a service that has stopped these tables."""
    client = SimpleNamespace(stopped=[SimpleNamespace(table=table) for table in stopped], blocked=("shop.orders",))
    connector = SimpleNamespace(
        client_status=lambda: client,
        destination="shop",
        client_id=1,
        report_blocked=lambda tables: setattr(client, "blocked", tables),
    )
    return Access("shop", 1, lambda: nullcontext(connector), lambda: NO_SPARK, lake)  # type: ignore[arg-type]


def test_a_stopped_table_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is noted first: if the job dies then, the batch passes when it comes again."""
    lake, heard = Lake(tmp_path), Heard()
    acceptances = Acceptances(lake, "shop", 1)
    acceptances.blocked("shop.orders", RANGE, RESULTS)

    def resumed(*_: Any) -> Done:
        assert acceptances.reason("shop.orders", RANGE, RESULTS) == "the shop knows"
        return Done("3 rows as of x", {"copied": True}, reloaded=True)

    monkeypatch.setattr(accept, "resumed", resumed)
    Accept(table="shop.orders").run(access(lake, "shop.orders"), heard)
    done = heard.done["shop.orders"]
    assert (done.facts["checks"], done.facts["copied"], done.reloaded) == (["some"], True, True)
    assert heard.ended == ["shop.orders some"]
    with pytest.raises(ConfigError, match="is not blocked"):
        Accept(table="shop.orders").run(access(lake), heard)


def test_a_table_that_waits_is_tried_at_once(tmp_path: Path) -> None:
    """Its log is merged by a run of its own. The service no longer shows it as blocked."""
    lake = Lake(tmp_path)
    parking = Parking(lake, "shop", 1)
    Acceptances(lake, "shop", 1).blocked("shop.orders", RANGE, RESULTS)
    parking.park("shop.orders", TableStopped("1 rows fail some", hint="Accept it."), 0.0)
    at = access(lake)
    Accept(table="shop.orders").run(at, Heard())
    assert parking.tables() == {}
    with at.connect() as connector:
        assert connector.client_status().blocked == ()


@pytest.mark.parametrize(
    ("asked", "accepted"),
    [
        (VersionRange(1, None, 20), True),
        (VersionRange(1, 10, 30), True),
        (VersionRange(1, 20, 30), False),
        (VersionRange(0, 30, 40), True),
        (VersionRange(2, None, 5), False),
    ],
)
def test_a_batch_is_accepted_until_the_table_has_passed_it(tmp_path: Path, asked: VersionRange, accepted: bool) -> None:
    """Also if it comes again longer; a later epoch is after it."""
    acceptances = Acceptances(Lake(tmp_path), "shop", 1)
    assert acceptances.reason("shop.orders", asked, RESULTS) == ""
    acceptances.blocked("shop.orders", RANGE, RESULTS)
    acceptances.accept("shop.orders", "known")
    assert acceptances.reason("shop.orders", asked, RESULTS) == ("known" if accepted else "")
    assert acceptances.reason("shop.users", asked, RESULTS) == ""


def test_what_was_not_blocked_is_not_accepted(tmp_path: Path) -> None:
    """Another check, a load in which more rows fail or after the batch is in the table, and a batch after a load."""
    notes, other = Acceptances(Lake(tmp_path), "shop", 1), ExpectationResult("other", Severity.BLOCK, 3, 1)
    more = [ExpectationResult("some", Severity.BLOCK, 3, 2)]

    def accepted(changes: VersionRange, results: Sequence[ExpectationResult], *, load: bool = False) -> bool:
        return bool(notes.reason("shop.orders", changes, results, load=load))

    notes.blocked("shop.orders", RANGE, RESULTS)
    notes.accept("shop.orders", "known")
    assert accepted(RANGE, RESULTS)
    assert accepted(VersionRange(1, 10, 99), RESULTS, load=True)
    assert not accepted(RANGE, [*RESULTS, other])
    assert not accepted(VersionRange(1, 10, 99), more, load=True)
    assert not accepted(VersionRange(1, 20, 99), RESULTS, load=True)
    notes.blocked("shop.orders", RANGE, RESULTS, load=True)
    notes.accept("shop.orders", "known")
    assert accepted(VersionRange(1, 90, 99), RESULTS, load=True)
    assert not accepted(VersionRange(1, 90, 99), more, load=True)
    assert not accepted(VersionRange(2, 90, 99), RESULTS, load=True)
    assert not accepted(RANGE, RESULTS)
    notes.end("shop.orders")
    assert not accepted(RANGE, RESULTS, load=True)


def test_values_are_given_by_column() -> None:
    """A value may have an equals sign."""
    assert Requeue(table="shop.orders", values=["a=1", "b=x=y", "c="]).given == {"a": "1", "b": "x=y", "c": ""}
    for values in (["a"], ["a=1", "a=2"]):
        with pytest.raises(ValidationError, match="write COLUMN=VALUE"):
            Requeue(table="shop.orders", values=values)

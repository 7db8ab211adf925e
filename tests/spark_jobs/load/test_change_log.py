"""The change log of a snapshot, without Spark: each change once, whatever the claims' boundaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_core.client.changes import RowsDoor
from cdc_core.errors import LakeError, RangeGone, TableStopped
from cdc_core.rows.system_columns import BEFORE
from spark_jobs.changes.columns import OP, VERSION
from spark_jobs.lake.tables import Lake
from spark_jobs.load.change_log import ChangeLog
from spark_jobs.load.staging import Staging
from tests.support.lake_trial import version
from tests.support.spark_feed import Change, Feed, Table

ORDERS = Table("orders", pa.schema([("id", pa.int32()), ("v", pa.string())]), ("id",))
NAME = ORDERS.schema.name


@pytest.fixture
def service() -> Iterator[Feed]:
    feed = Feed()
    feed.put(ORDERS, [Change(at, None, (at, "x")) for at in (10, 20, 30, 40)])
    feed.put(ORDERS, [Change(50, (10, "x"), (10, "y")), Change(60, (20, "x"), None)])
    yield feed
    feed.shutdown()


def kept(log: ChangeLog) -> list[tuple[int, bool, int, str]]:
    found = pa.table(log.lake.open(log.path).to_pyarrow_table())
    rows = zip(*(found.column(name).to_pylist() for name in (VERSION, OP, "0", "1")), strict=True)
    return sorted((at, op in BEFORE, key, value) for at, op, key, value in rows)


def test_claims_with_other_boundaries_add_what_is_new(service: Feed, tmp_path: Path) -> None:
    """A claim that comes again adds nothing, one that reaches further adds the rest, one that ends before adds nothing;
    the log's end is that of the furthest one."""
    log = ChangeLog(Lake(tmp_path), "d", "5f")
    assert (log.end(), log.types()) == (None, None)
    for number, (start, end, reached) in enumerate(((5, 25, 25), (5, 25, 25), (5, 45, 45), (25, 35, 45), (45, 70, 70))):
        log.append(service.claim(number, start, end), NAME, RowsDoor(service.url))
        assert log.end() == version(reached)
    inserted = [(version(at), False, at, "x") for at in (10, 20, 30, 40)]
    changed = [(version(50), False, 10, "y"), (version(50), True, 10, "x"), (version(60), True, 20, "x")]
    assert kept(log) == inserted + changed
    log.append(service.claim(9, 70, 90), NAME, RowsDoor(service.url))  # none of the table: the end moves all the same
    assert (log.end(), len(kept(log))) == (version(90), 7)
    assert log.types() == ["int", "string"]


def test_a_late_run_adds_nothing_twice(service: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that opened the log before another one wrote is refused, and its claim is gone."""
    log = ChangeLog(Lake(tmp_path), "d", "5f")
    log.append(service.claim(1, 5, 15), NAME, RowsDoor(service.url))
    late = log.lake.open(log.path)
    log.append(service.claim(2, 15, 45), NAME, RowsDoor(service.url))
    with monkeypatch.context() as patched:
        patched.setattr(Lake, "open", lambda *_: late)
        with pytest.raises(LakeError, match="cannot be kept"):
            log.append(service.claim(3, 15, 25), NAME, RowsDoor(service.url))
    assert len(kept(log)) == 4


def test_the_services_own_errors_stay(service: Feed, tmp_path: Path) -> None:
    """A claim that is gone is reported as such, and nothing is written."""
    log = ChangeLog(Lake(tmp_path), "d", "5f")
    claim = service.claim(1, 5, 15)
    del service.claims[1]
    with pytest.raises(RangeGone):
        log.append(claim, NAME, RowsDoor(service.url))
    assert log.end() is None


@pytest.mark.parametrize("columns", [("id",), ("id", "v", "w")])
def test_changes_of_another_definition_are_not_kept(service: Feed, tmp_path: Path, columns: tuple[str, ...]) -> None:
    """No statement announced it. The snapshot is of no use any more, and nobody is held up."""
    log, types = ChangeLog(Lake(tmp_path), "d", "5f"), {"id": pa.int32(), "v": pa.int64(), "w": pa.string()}
    log.append(service.claim(1, 5, 25), NAME, RowsDoor(service.url))
    altered = Table("orders", pa.schema([(name, types[name]) for name in columns]), ("id",))
    service.tables[NAME] = altered
    service.changes[NAME] = [Change(30, None, tuple([None] * len(columns)))]
    with pytest.raises(TableStopped, match="other columns"):
        log.append(service.claim(2, 25, 45), NAME, RowsDoor(service.url))


def before(monkeypatch: pytest.MonkeyPatch, cls: type, name: str, then: Callable[[], None]) -> None:
    """Does something before each call of a method."""
    method = getattr(cls, name)

    def called(self: object, *args: Any) -> Any:
        then()
        return method(self, *args)

    monkeypatch.setattr(cls, name, called)


def test_two_runs_begin_the_log_at_once(service: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that writes first counts, and the other is refused: no change is in it twice."""
    log, claims = ChangeLog(Lake(tmp_path), "d", "5f"), [service.claim(number, 5, 25) for number in (2, 1)]

    def begins() -> None:
        if len(claims) == 2:
            log.append(claims.pop(0), NAME, RowsDoor(service.url))

    before(monkeypatch, Feed, "do_get", begins)
    with pytest.raises(LakeError, match="cannot be kept"):
        log.append(claims[1], NAME, RowsDoor(service.url))
    assert len(kept(log)) == 2


@pytest.mark.parametrize(("cls", "moment"), [(DeltaTable, "transaction_version"), (Feed, "do_get")])
def test_a_log_that_is_removed_meanwhile_is_reported(
    service: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cls: type, moment: str
) -> None:
    """A snapshot that is cancelled removes its staging while a run keeps changes for it: the run hears that the log is
    gone, at whatever moment."""
    log, staging = ChangeLog(Lake(tmp_path), "d", "5f"), Staging(Lake(tmp_path), "d", "5f")
    log.append(service.claim(1, 5, 25), NAME, RowsDoor(service.url))
    before(monkeypatch, cls, moment, staging.remove)
    with pytest.raises(TableStopped, match=r"removed|damaged"):
        log.append(service.claim(2, 25, 45), NAME, RowsDoor(service.url))
    assert log.end() is None

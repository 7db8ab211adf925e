"""What a run reports to the service of rows that wait in quarantines."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cdc_core.errors import LakeError, ServiceUnavailable, SluiceError
from orchestration.assets.waiting_rows import WaitingReports


@dataclass
class World:
    """A lake and a service in memory."""

    rows: dict[str, int] = field(default_factory=dict)
    counted: list[Collection[str] | None] = field(default_factory=list)
    reported: list[tuple[dict[str, int], bool]] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    error: SluiceError | None = None
    lake_error: SluiceError | None = None

    def count(self, epoch: int, tables: Collection[str] | None = None) -> dict[str, int]:
        assert epoch == 3
        self.counted.append(tables)
        if self.lake_error is not None:
            raise self.lake_error
        return {name: self.rows.get(name, 0) for name in (self.rows if tables is None else tables)}

    def report(self, rows: Mapping[str, int], *, whole: bool = False) -> None:
        if self.error is not None:
            raise self.error
        self.reported.append((dict(rows), whole))

    def reports(self) -> WaitingReports:
        return WaitingReports(self.count, self.report, lambda table: table == "shop.orders", self.warned.append)


def test_a_run_reports_what_the_service_does_not_know() -> None:
    """When it begins: of all tables, once; a service that knows it is left alone."""
    world = World({"shop.orders": 2, "shop.users": 0})
    world.reports().begin(3, {"shop.orders": 2})
    assert world.reported == []
    world.reports().begin(3, {"shop.users": 1})
    assert world.reported == [({"shop.orders": 2, "shop.users": 0}, True)]


def test_a_batch_reports_the_tables_that_may_have_a_quarantine() -> None:
    """Others are not even looked for, and a table without rows before and after is not reported."""
    world = World()
    reports = world.reports()
    reports.begin(3, {})
    reports.after(3, ["shop.users"])
    reports.after(3, ["shop.orders", "shop.users"])
    assert (world.counted, world.reported) == ([None, ["shop.orders"]], [])
    world.rows["shop.orders"] = 2
    reports.after(3, ["shop.orders"])
    world.rows["shop.orders"] = 0
    reports.after(3, ["shop.orders"])
    reports.after(3, ["shop.orders"])
    assert world.reported == [({"shop.orders": 2}, False), ({"shop.orders": 0}, False)]


def test_a_renamed_table_takes_its_count_along() -> None:
    """Both names are counted, whatever is expected of them."""
    world = World({"shop.users": 2})
    reports = world.reports()
    reports.begin(3, {"shop.users": 2})
    world.rows = {"shop.old": 2}
    reports.after(3, ["shop.old"], ["shop.old", "shop.users"])
    assert world.reported == [({"shop.old": 2, "shop.users": 0}, False)]


def test_a_report_that_fails_is_made_up_with_the_next_one() -> None:
    """It fails no batch, and is warned of once."""
    world = World({"shop.orders": 1})
    reports = world.reports()
    world.error = ServiceUnavailable("away", place="x", hint="Wait.")
    reports.begin(3, {})
    reports.after(3, ["shop.users"])
    assert (reports.rows, len(world.warned)) == (None, 1)
    world.error = None
    reports.after(3, ["shop.users"])
    assert world.reported == [({"shop.orders": 1}, True)]
    world.lake_error, world.rows = LakeError("away", place="x", hint="Wait."), {"shop.orders": 5}
    reports.after(3, ["shop.orders"])
    world.lake_error = None
    reports.after(3, ["shop.users"])
    assert world.reported[1:] == [({"shop.orders": 5}, False)]
    assert len(world.warned) == 2


def test_a_run_that_does_not_know_the_service_reports_all() -> None:
    """The first time."""
    world = World()
    reports = world.reports()
    reports.after(3, ["shop.orders"])
    assert world.reported == [({}, True)]

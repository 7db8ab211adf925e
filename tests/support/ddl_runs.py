"""Runs on a shop, as Dagster's: they stop tables at the service. A copy, the documented remedy, reloads those."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from cdc_core.config import InstanceConfig
from cdc_core.position import EntryPosition
from cdc_core.schema.names import full_name, split_name
from spark_jobs.apply import batch
from spark_jobs.apply.ddl import altering, copies, follow, renaming
from spark_jobs.apply.gate import gate
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.lake.fence import Fence
from spark_jobs.landing.notes import Notes
from spark_jobs.load.loader import Loader
from spark_jobs.load.result import Copied
from tests.support.shop import Shop, reading_source, until_running

_SECONDS = 120.0  # for the service to read what the source has written
_PLACES: dict[str, tuple[Any, str]] = {
    "table": (batch, "apply_table"),
    "step": (follow, "_outcome"),
    "column": (altering, "alter_table"),
    "move": (renaming, "_move"),
    "copy": (copies, "copy_table"),
    "cascades": (batch, "copied"),
    "applied": (SparkLake, "apply"),
    "noted": (SparkLake, "note"),
}
PLACES = tuple(_PLACES)


class Killed(Exception):
    """The run ends here, as if its process had died."""


@dataclass
class Runs:
    """`instance` says where the source of `shop` is. `parked`: why tables stopped; `warned`: what rows met."""

    shop: Shop
    instance: InstanceConfig
    parked: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    copied: int = 0

    def drain(self, batch_size: int, *, copying: bool) -> None:
        """One run until nothing is left. `copying`: it copies small tables that need it, instead of stopping them."""
        end = EntryPosition(*self.shop.mysql.position())
        deadline = time.monotonic() + _SECONDS
        until_running(self.shop.connector)
        with reading_source(self.shop) as shop:
            lake = replace(shop.lake, fence=Fence(shop.lake.lake, shop.lake.sessions), notes=Notes())
            lake = lake if copying else replace(lake, source=None)
            while (worked := self._batch(lake, batch_size)) or not self._reached(end):
                deadline = time.monotonic() + _SECONDS if worked else deadline
                assert time.monotonic() < deadline, f"the service does not reach {end}"

    def repair(self, captured: Callable[[str], bool]) -> None:
        """Copies every stopped table that is captured and that the source has; their stops are lifted."""
        lake = self.shop.lake
        for stop in filter(lambda one: captured(one.table), self.shop.connector.client_status().stopped):
            loader = Loader(self.shop.connector, self.instance, lake.lake, lake.sessions)
            self.copied += isinstance(loader.copy(*split_name(stop.table)), Copied)

    def live(self, databases: Collection[str]) -> set[str]:
        """The tables that the lake takes for tables of the source."""
        lake = self.shop.lake.lake
        names = {name for database in databases for name in lake.tables(database, "shop")}
        states = {name: lake.state(lake.path(*split_name(name)), "") for name in names}
        return {name for name, state in states.items() if state is not None and not state.dropped}

    def _reached(self, end: EntryPosition) -> bool:
        return self.shop.reached(end)

    def _batch(self, lake: SparkLake, batch_size: int) -> bool:
        """Whether there was one."""
        connector, mended = self.shop.connector, set[str]()
        with connector.claim(batch_size, owner="test", timeout_seconds=0.3, mended=mended) as claim:
            if claim is None:
                return False
            lake.check_claim(claim)
            applied, verdicts = gate(claim, lake.apply(claim, "test", 2, sorted(claim.stopped)))
            self.copied += sum(followed.kind == "copy" for followed in applied.followed)
            self.warned += [f"{one.table}: {one.text}" for one in verdicts if one.warns and not one.passed]
            for refusal in applied.refused:
                error = refusal.error
                self.parked.append(f"{refusal.table}: {error.message}")
                connector.stop_table(
                    refusal.table,
                    reason=error.message,
                    hint=error.hint,
                    position=claim.start,
                    copy_needed=refusal.copy_needed,
                )
            lake.note(claim, applied, "test")
            mended.update(applied.mended)
            return True


@contextmanager
def killed(where: str) -> Iterator[None]:
    """A run in this block dies the first time that it has done a thing: one of PLACES."""

    def after(call: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            call(*args, **kwargs)
            raise Killed(where)

        return called

    kind, name = _PLACES[where]
    with mock.patch.object(kind, name, after(getattr(kind, name))):
        try:
            yield
        except Killed:
            return


def differences(
    runs: Runs, databases: Collection[str], tables: Sequence[tuple[str, str]], outside: Collection[str] = ()
) -> dict[str, str]:
    """What is not alike in rows and definitions: `tables` are all that these databases of the source have and the
    filter captures, `outside` those of the lake that left the filter."""
    found = {}
    for database in databases:
        for one in runs.shop.compared(*(table for at, table in tables if at == database), database=database):
            rows = one.comparison
            if one.differences:
                counts = rows and f"{rows.missing} missing, {rows.extra} extra, {rows.different} different"
                found[one.table] = "; ".join(filter(None, (counts, *one.definition, one.error)))
    stopped = {stop.table for stop in runs.shop.connector.client_status().stopped}
    gone = runs.live(databases) - {full_name(*table) for table in tables} - stopped - {*outside}
    return found | dict.fromkeys(gone, "the source does not have it")

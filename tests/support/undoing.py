"""Undos, redos and restores of a lake with a random history, without Spark: what a REPLACE does is done by delta-rs."""

from __future__ import annotations

import pkgutil
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from unittest import mock

from deltalake import Transaction

from spark_jobs.as_of.as_of import TablesAsOf
from spark_jobs.lake.corrections import CorrectedTable, Correction, Corrections
from spark_jobs.past.asked import asked_position
from spark_jobs.past.noted import PastBatches
from spark_jobs.session import Sessions
from spark_jobs.undo import restore
from spark_jobs.undo.commit import Corrected, Corrector
from spark_jobs.undo.decision import Toward
from spark_jobs.undo.parts import noted_part, past_part
from spark_jobs.undo.plan import Planner
from spark_jobs.undo.restore import LakePlace, Restored, Restorer
from tests.support.lake_history import LakeHistory, Rows, Transactional

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A = "shop.a"


class Killed(BaseException):
    """The run is killed."""


class Undoing:
    """A lake with a history, and its corrections."""

    def __init__(
        self, root: Path, seed: int = 1, names: Sequence[str] = (A, "shop.b", "shop.keyless"), soft: Sequence[str] = ()
    ) -> None:
        self.lake = LakeHistory(root, random.Random(seed), list(names))
        self.lake.soft = tuple(soft)
        self.tables = self.lake.follows

    @property
    def corrections(self) -> Corrections:
        return Corrections(self.lake.lake, "d", 1)

    def batch(self, rows: dict[int, int | None], name: str = A) -> int:
        """A transaction with these rows, in a batch of its own. Returns the batch's number."""
        lake = self.lake
        with mock.patch.object(lake.rng, "randrange", side_effect=[40]):
            state = {**(lake.states[-1][name] or {}), **rows}
            there = {key: v for key, v in state.items() if v is not None}
            lake._ends(Transactional({name: rows}), {**lake.states[-1], name: there})
        lake.batch_of(1)
        return PastBatches(lake.ledger)._select("true ORDER BY batch_id DESC LIMIT 1")[0].number

    def planner(
        self, first: int, last: int | None = None, toward: Toward = "before", *, force: bool = False
    ) -> Planner:
        span = PastBatches(self.lake.ledger).numbered(first, last or first)
        return Planner(self.tables, lambda table: past_part(self.tables, table, span), toward, force)

    def undo(self, first: int, last: int | None = None, *, force: bool = False, name: str = A) -> Corrected:
        planner = self.planner(first, last, force=force)
        asked = Correction("undo", 0, first, last or first, reason="a bad release", forced=force)
        return self.corrected(planner, asked, name)

    def redo(self, number: int, name: str = A) -> Corrected:
        (one,) = [one for one in self.corrections.of_table(name) if one.correction.number == number]
        planner = Planner(self.tables, lambda _: noted_part(self.corrections, one))
        return self.corrected(planner, Correction("redo", 0, 0, 0, of=number), name)

    def corrected(self, planner: Planner, asked: Correction, name: str) -> Corrected:
        corrector = Corrector(self.tables, cast(Sessions, None), planner, lambda: NOW.timestamp())
        plan = planner.plan(name)
        return corrector.correct(self.corrections.asked(asked, NOW), plan)

    @property
    def rows(self) -> Rows:
        return self.lake.current(A)

    def noted(self) -> list[CorrectedTable]:
        return [one for one in self.corrections.tables() if one.table]


@contextmanager
def killed_at(step: str, *, after: bool) -> Iterator[None]:
    """The run is killed before a step, or after it."""
    owner, name = pkgutil.resolve_name(step.rpartition(".")[0]), step.rpartition(".")[2]
    real = getattr(owner, name)

    def killed(*given: object, **named: object) -> object:
        if after:
            real(*given, **named)
        raise Killed

    with mock.patch.object(owner, name, killed):
        yield


def replacing(lake: LakeHistory) -> mock._patch[object]:
    """In the place of Spark's statement."""

    def replaced(_sessions: object, _tables: object, made: restore._Made) -> None:
        rows = lake.rows_of(made.chosen)
        lake._replace(made.target.name, rows, made.properties, made.about, Transaction(made.target.app, made.mark.upto))

    return cast("mock._patch[object]", mock.patch.object(restore, "_replace", replaced))


def restored(lake: LakeHistory, found: TablesAsOf, only: list[str]) -> dict[str, Restored]:
    """The cursor is set, then these tables are restored."""
    lake.epoch, lake.cursor = lake.epoch + 1, lake.index_of(found.place)
    restorer = Restorer(lake.follows, cast(Sessions, None))
    place = LakePlace(lake.epoch, asked_position(found.position))
    return {name: restorer.table(found.tables[name], place) for name in only}

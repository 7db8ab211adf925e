"""Random sequences of batches, undos, redos, restores, rewinds and kills on a lake, beside a model of its rows. One of
its tables has soft deletes. They are tables of their own, or go into one table."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import LakeError
from cdc_core.schema.names import split_name
from spark_jobs.lake.corrections import Correction
from spark_jobs.lake.own_columns import DELETED
from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import NO_UNIONS, Union, Unions
from spark_jobs.session import Sessions
from spark_jobs.undo.parts import noted_part
from spark_jobs.undo.plan import Planner
from spark_jobs.undo.restore import Restorer
from spark_jobs.union.publish import publish
from tests.support.lake_history import Rows
from tests.support.marks import tiers
from tests.support.undoing import Killed, Undoing, killed_at, replacing, restored

NAMES = ["shop.a", "shop.b"]
STEPS = [
    "spark_jobs.load.rewrite.Rewrite.begun",
    "spark_jobs.lake.corrections.write_deltalake",
    "spark_jobs.lake.corrections.Corrections.note",
    "spark_jobs.undo.commit.by_delta_rs",
]
Sides = dict[int, tuple[int | None, int | None]]  # by key, the row before and the row after


@dataclass
class ModelTable:
    """The rows of a table; `at`: up to which transaction it has changes of this epoch, `high`: of any epoch since it
    was restored. `copied`: up to which it was restored, what is read again up to there is left out. `seen`: its rows
    when it was last at the place after a transaction. `begun`: its rows before a batch that died behind its commit,
    `mixed`: since then something else has changed them."""

    rows: Rows = field(default_factory=dict)
    at: int = -1
    high: int = -1
    copied: int = -1
    seen: dict[int, Rows] = field(default_factory=dict)
    begun: Rows | None = None
    mixed: bool = False

    def put_back(self, sides: Sides) -> Rows:
        """Returns the rows with those that are as after the change set to those before it."""
        found: dict[int, int | None] = {**self.rows}
        found |= {key: before for key, (before, after) in sides.items() if self.rows.get(key) == after}
        return {key: v for key, v in found.items() if v is not None}


class Walk:
    """One random sequence. `did` counts what was not refused."""

    def __init__(self, root: Path, seed: int, unions: Unions = NO_UNIONS) -> None:
        self.rng, self.undoing = random.Random(seed), Undoing(root, seed, NAMES, soft=["shop.b"])
        self.lake, self.model = self.undoing.lake, {name: ModelTable() for name in NAMES}
        self.lake.lake.unions = unions
        self.changes: dict[int, dict[str, Sides | None]] = {}  # by batch
        self.puts: dict[tuple[int, str], Sides] = {}  # by correction
        self.did = Counter[str]()

    def steps(self, least: int) -> None:
        """Takes so many steps, and more until there was one of each kind."""
        for number in range(5 * least):
            if number >= least and all(self.did[kind] for kind in ("undo", "redo", "restore", "rewind")):
                return
            self.step()
        raise AssertionError(self.did)

    def step(self) -> None:
        weights = {self.batch: 8, self.undo: 6, self.redo: 5, self.restore: 1, self.rewind: 1}
        self.rng.choices(list(weights), list(weights.values()))[0]()
        self.check()

    def check(self) -> None:
        for name, table in self.model.items():
            if self.lake.has(name):
                assert self.lake.current(name) == table.rows, (name, self.did)
            self._see(name)
        for union in self.lake.lake.unions.all:
            publish(self.lake.lake, union)
            self._check_union(union)

    def _check_union(self, union: Union) -> None:
        """It has the rows of each table, and the row of another destination."""
        found = self.lake.lake.open(self.lake.lake.path(*split_name(union.table))).to_pyarrow_table().to_pylist()
        living = sorted((row["of"], row["id"], row["v"]) for row in found if not row.get(DELETED))
        wanted = [(name[-1], key, v) for name, table in self.model.items() for key, v in table.rows.items()]
        assert living == sorted([*wanted, ("elsewhere", 1, 7)]), self.did

    def drain(self) -> None:
        while self.lake.cursor < len(self.lake.transactions) - 1:
            self.lake.batch_of(1)
            self._applied(self.lake.cursor - 1, self.lake.cursor, NAMES)

    def batch(self) -> None:
        """Some transactions, or those that are read again. A killed run writes some tables."""
        lake = self.lake
        for _ in range(self.rng.randint(0, 2)):
            lake.commit(*self.rng.sample(NAMES, self.rng.randint(1, 2)))
        upto = min(lake.cursor + self.rng.randint(1, 2), len(lake.transactions) - 1)
        if upto == lake.cursor:
            return
        cursor, killed = lake.cursor, self.rng.random() < 0.2
        only = self.rng.sample(NAMES, 1) if killed else None
        lake.batch_of(upto - cursor, only)
        before = {name: table.rows for name, table in self.model.items()}
        changes = self._applied(cursor, upto, only or NAMES)
        if killed:
            for name in changes:
                table = self.model[name]
                table.begun = before[name] if table.begun is None else table.begun
        else:
            noted = lake.ledger.opened()
            assert noted is not None
            number = max(noted.to_pyarrow_table(columns=["batch_id"]).column(0).to_pylist())
            self.changes[number] = changes | self._completed(upto)
        self.did["batch"] += 1

    def _completed(self, upto: int) -> dict[str, Sides | None]:
        """Returns what a batch did to tables of which killed runs had written a part, None where that is mixed with
        something else."""
        found = dict[str, Sides | None]()
        for name, table in self.model.items():
            if table.begun is None:
                continue
            table.mixed = table.mixed or table.at > upto
            found[name] = None if table.mixed else _sides(table.begun, table.rows)
            if table.at <= upto:
                table.begun, table.mixed = None, False
        return found

    def undo(self) -> None:
        if not self.changes:
            return
        number, name = self.rng.choice([*self.changes][-4:]), self.rng.choice(NAMES)
        sides = self.changes[number].get(name, {})
        if sides is not None:
            asked = Correction("undo", 0, number, number, reason="a bad release")
            self._corrected("undo", self.undoing.planner(number), asked, name, sides)

    def redo(self) -> None:
        name = self.rng.choice(NAMES)
        noted = [one for one in self.undoing.corrections.of_table(name) if (one.correction.number, name) in self.puts]
        if noted:
            one = self.rng.choice(noted[-3:])
            planner = Planner(self.undoing.tables, lambda _: noted_part(self.undoing.corrections, one))
            number = one.correction.number
            asked = Correction("redo", 0, 0, 0, of=number)
            self._corrected("redo", planner, asked, name, self.puts[number, name])

    def restore(self) -> None:
        """To the end of a batch; a killed run restores some tables."""
        if not self.changes:
            return
        try:
            found = Restorer(self.lake.follows, cast(Sessions, None)).plan(f"batch:{self.rng.choice([*self.changes])}")
        except LakeError:
            return
        names = [name for name in found.tables if self.rng.random() < 0.8]
        made = restored(self.lake, found, names)
        self._read_from(self.lake.cursor)
        for name in names:
            table = self.model[name]
            table.copied = self.lake.cursor if made[name].version is not None else table.copied
            table.rows, table.high = table.seen[self.lake.cursor], self.lake.cursor
        self.did["restore"] += 1

    def rewind(self) -> None:
        self.lake.rewind(self.rng.randint(1, 3))
        self._read_from(self.lake.cursor)
        self.did["rewind"] += 1

    def _corrected(self, kind: str, planner: Planner, asked: Correction, name: str, sides: Sides) -> None:
        """Puts rows back, or dies at a step: then the table has them or not."""
        table = self.model[name]
        after = table.put_back(sides)
        puts = _sides(table.rows, after)
        last = len(self.undoing.corrections.tables())
        try:
            if self.rng.random() < 0.3:
                with suppress(Killed), killed_at(self.rng.choice(STEPS), after=self.rng.random() < 0.5):
                    self.undoing.corrected(planner, asked, name)
                there = self.lake.current(name)
                assert there in (table.rows, after)
                table.rows = there
            else:
                self.undoing.corrected(planner, asked, name)
                table.rows = after
        except LakeError:
            return
        made = self.undoing.corrections.tables()
        if puts and len(made) > last:
            table.mixed = table.begun is not None
            self.puts[made[-1].correction.number, name] = puts
            self.did[kind] += 1

    def _applied(self, cursor: int, upto: int, names: list[str]) -> dict[str, Sides | None]:
        """Changes the rows of the model as a batch does. Returns what it did."""
        found = dict[str, Sides | None]()
        for name in names:
            table, taken = self.model[name], self.lake.transactions
            if not any(name in one.rows for one in taken[cursor + 1 : upto + 1]):
                continue
            rows: dict[int, int | None] = {**table.rows}
            for one in taken[max(cursor, table.at, table.copied) + 1 : upto + 1]:
                rows |= one.rows.get(name, {})
            after = {key: v for key, v in rows.items() if v is not None}
            found[name] = _sides(table.rows, after)
            table.rows, table.at = after, max(table.at, upto)
            table.high = max(table.high, table.at)
        return found

    def _read_from(self, cursor: int) -> None:
        for table in self.model.values():
            table.at, table.begun, table.mixed = cursor, None, False

    def _see(self, name: str) -> None:
        """The rows are those of each place since the table was changed last."""
        table = self.model[name]
        end = max(table.at, self.lake.cursor)
        if end < table.high:
            return
        changed = [at for at, one in enumerate(self.lake.transactions[: end + 1]) if name in one.rows]
        for at in range(changed[-1] if changed else -1, end + 1):
            table.seen[at] = dict(table.rows)


def _sides(before: Rows, after: Rows) -> Sides:
    found = {key: (before.get(key), after.get(key)) for key in before.keys() | after.keys()}
    return {key: one for key, one in found.items() if one[0] != one[1]}


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", tiers([0], full=[1, 2], turns=range(3, 6)))
def test_random_sequences(tmp_path: Path, seed: int) -> None:
    """After each step, and when all is read, the lake has the rows of the model, whatever was killed or refused."""
    walk = Walk(tmp_path, seed)
    with replacing(walk.lake):
        walk.steps(80)
        walk.drain()
        walk.check()


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", tiers([0], full=[1], turns=range(2, 5)))
def test_random_sequences_of_shards(tmp_path: Path, seed: int) -> None:
    """The same with tables that go into one, which has the rows of both after each step, and of another destination."""
    union, other = (Union("all.t", rf"shop\.({of})", ("of",)) for of in ("[ab]", "elsewhere"))
    elsewhere = Lake(tmp_path, unions=Unions("other", (other,)))
    path, rows = elsewhere.path("shop", "elsewhere"), pa.table({"id": [1], "v": [7]})
    noted = {DESTINATION: "other", TABLE: "shop.elsewhere"}
    DeltaTable.create(path, rows.schema, configuration=noted, raise_if_key_not_exists=False)
    write_deltalake(path, rows, mode="append")
    publish(elsewhere, other)
    walk = Walk(tmp_path, seed, Unions("d", (union,)))
    with replacing(walk.lake):
        walk.steps(60)
        walk.drain()
        walk.check()

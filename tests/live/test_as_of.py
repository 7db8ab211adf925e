"""As of a place, on a real MySQL and Spark: what is shown is what the source had between two transactions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pymysql.cursors import DictCursor

from cdc_core.errors import SluiceError
from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.as_of.as_of import NotAsOf, TablesAsOf, as_of
from spark_jobs.as_of.views import queries_as_of
from spark_jobs.lake.fence import Fence
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.notes import Notes
from spark_jobs.verify.comparer import TableComparer, compared
from spark_jobs.verify.repair import RowRepair
from tests.support.copying import loader_of
from tests.support.landed import LandedShop, opened_landed
from tests.support.marks import tiers
from tests.support.small_lake import briefly, source_of

pytestmark = [pytest.mark.integration, pytest.mark.full]

MODES = {"*.l": Mode.LAND_FIRST, "*.lk": Mode.LAND_FIRST}
TABLES = ("a", "b", "k", "l", "lk")
KEYLESS = ("k", "lk")
Rows = Counter[Any]


@dataclass
class Witness:
    """Writes transactions at the source, and remembers after each what all tables had."""

    shop: LandedShop
    conf: Path
    rng: random.Random
    places: list[EntryPosition] = field(default_factory=list)
    had: list[dict[str, tuple[list[str], list[Any]]]] = field(default_factory=list)
    value: dict[str, str] = field(default_factory=lambda: dict.fromkeys(TABLES, "v"))
    added: int = 0

    # The source

    def create(self, *tables: str) -> None:
        for table in tables:
            key = "" if table in KEYLESS else "PRIMARY KEY"
            self.value[table] = "v"
            self.does(f"CREATE TABLE {table} (id INT {key}, v VARCHAR(40), n DECIMAL(10, 2))")

    def does(self, *statements: str) -> None:
        """One transaction, or one statement."""
        self.shop.execute(*(statements if len(statements) == 1 else ("START TRANSACTION", *statements, "COMMIT")))
        found = dict[str, tuple[list[str], list[Any]]]()
        with self.shop.mysql.root(self.shop.database) as connection, connection.cursor(DictCursor) as cursor:
            cursor.execute("SHOW TABLES")
            for (table,) in [tuple(one.values()) for one in cursor.fetchall()]:
                cursor.execute(f"SELECT * FROM {table} LIMIT 0")
                names = [one[0] for one in cursor.description]
                cursor.execute(f"SELECT * FROM {table}")
                found[table] = names, list(cursor.fetchall())
        self.had.append(found)
        self.places.append(EntryPosition(*self.shop.mysql.position()))

    @property
    def there(self) -> list[str]:
        return [one for one in TABLES if one in self.had[-1]]

    def write(self) -> None:
        """A transaction over some tables, each row image in an event of its own."""
        names = self.rng.sample(self.there, self.rng.randint(1, len(self.there)))
        self.does(*(text for name in names for text in self._changes(name)), "DO 1")

    def _changes(self, table: str) -> Iterator[str]:
        value = self.value[table]
        number = self.rng.randrange(1 << 30)
        yield f"REPLACE INTO {table} (id, {value}, n) VALUES (0, 'first{number}', 1)"
        for _ in range(self.rng.randint(1, 3)):
            one, new = self.rng.randrange(12), self.rng.randrange(10_000)
            yield self.rng.choice(
                [
                    f"REPLACE INTO {table} (id, {value}, n) VALUES ({one}, 'v{new}', 2.25), ({one + 1}, NULL, NULL)",
                    f"UPDATE {table} SET {value} = 'u{new}' WHERE id <= {one}",
                    f"DELETE FROM {table} WHERE id = {one}",
                ]
            )

    def statement(self) -> None:
        name = self.rng.choice(self.there)
        self.added += 1
        old = self.value[name]
        match self.rng.choice(["add", "rename", "truncate", "drop", "swap"]):
            case "add":
                self.does(f"ALTER TABLE {name} ADD COLUMN c{self.added} INT DEFAULT 5")
            case "rename":
                self.value[name] = f"v{self.added}"
                self.does(f"ALTER TABLE {name} RENAME COLUMN {old} TO v{self.added}")
            case "truncate":
                self.does(f"TRUNCATE TABLE {name}")
            case "drop":
                self.does(f"DROP TABLE {name}")
                self.create(name)
            case _ if {"a", "b"} <= set(self.there):
                self.value["a"], self.value["b"] = self.value["b"], self.value["a"]
                self.does("RENAME TABLE a TO _a, b TO a, _a TO b")

    # The lake

    def run(self) -> None:
        """Another run."""
        lake = self.shop.lake
        fence = Fence(lake.lake, lake.sessions)
        self.shop.lake = replace(lake, modes=Modes(Mode.MERGE, MODES), fence=fence, notes=Notes())

    def drain(self) -> None:
        self.run()
        self.shop.drain(self.rng.choice([5, 20, 1000]))

    def killed(self) -> None:
        """A run that dies when some tables are written."""
        self.write()
        self.run()
        claim = self.shop.claim(self.rng.choice([5, 10, 1000]))
        spared = [one for one in claim.table_names if self.rng.random() < 0.5]
        self.shop.lake.apply(claim, "killed", 2, {*claim.stopped, *spared})
        self.shop.connector.rollback(claim, reason="killed")

    def merge(self) -> None:
        self.shop.follow()

    def rewind(self) -> None:
        self.shop.reset(self.rng.choice(self.places[-6:]))

    def pause(self) -> None:
        name = self.rng.choice(["a", "b", "k"])
        self.shop.connector.stop_table(
            self.shop.named(name), reason="paused", hint="", position=EntryPosition(*self.shop.mysql.position())
        )

    def copy(self) -> None:
        name = self.rng.choice(["a", "b", "k"])
        loader_of(self.shop, self.conf).copy(self.shop.database, name)

    def repair(self) -> None:
        """Somebody takes a row away, and a repair brings it back."""
        there = TableComparer(
            self.shop.connector, source_of(self.shop), self.shop.lake.lake, timeout_seconds=600, sleep=briefly
        )
        with self.shop.lake.sessions.take() as spark:
            spark.sql(f"DELETE FROM delta.`{self.shop.lake.lake.path(self.shop.database, 'a')}` WHERE id = 0")
        list(compared(replace(there, settle=RowRepair(self.shop.lake.sessions, "run").of), [(self.shop.database, "a")]))

    # The judge

    def shown(self, found: TablesAsOf) -> dict[str, tuple[list[str], Rows]]:
        """The columns and rows that the views show."""
        answer = {}
        for table, query in queries_as_of(self.shop.follows, found).items():
            with self.shop.lake.sessions.take() as spark:
                rows = pa.table(spark.sql(query).toArrow())
            answer[table.partition(".")[2]] = rows.column_names, _counted(rows.column_names, rows.to_pylist())
        return answer

    def fits(self, found: TablesAsOf, index: int, shown: dict[str, tuple[list[str], Rows]]) -> str:
        """Why what is shown is not what the source had after a transaction, or ""."""
        had = self.had[index] if index >= 0 else {}
        for table, (columns, rows) in shown.items():
            if table not in had:
                return f"{table} is shown, and was not there"
            names, wanted = had[table]
            if missing := {*names} - {*columns}:
                return f"{table} lacks {missing}"
            if rows_of(columns, names, rows) != _counted(names, wanted):
                return f"{table}: {rows_of(columns, names, rows)} and not {_counted(names, wanted)}"
        for name, why in found.absent.items():
            if why.startswith("the source had no") and had.get(name.partition(".")[2], ([], []))[1]:
                return f"{name} is absent, and had rows"
        return ""

    def check(self, position: EntryPosition, index: int | None) -> bool:
        """What is shown at a place is right, or refused. Returns whether it is shown. Without an index: it is what the
        source had between some transactions."""
        try:
            found = as_of(self.shop.follows, str(position))
        except NotAsOf:
            return False
        except SluiceError as error:
            raise AssertionError(position) from error
        shown = self.shown(found)
        known = range(-1, len(self.had)) if index is None else [index]
        whys = [self.fits(found, one, shown) for one in known]
        assert "" in whys, (position, index, found, whys[-3:])
        return True


def rows_of(columns: list[str], names: list[str], rows: Rows) -> Rows:
    """The rows with these names alone, in their order."""
    at = [columns.index(one) for one in names]
    return Counter(tuple(row[one] for one in at) for row in rows.elements())


def _counted(names: list[str], rows: list[dict[str, Any]]) -> Rows:
    return Counter(tuple(row[one] for one in names) for row in rows)


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as one:
        yield one


def events_within(witness: Witness) -> list[EntryPosition]:
    """The ends of events that end no transaction, since the first place."""
    journal, begun = witness.places[0].journal_name, witness.places[0].position
    ends = {one.position for one in witness.places}
    with witness.shop.mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW BINLOG EVENTS IN '{journal}' FROM {begun}")
        return [EntryPosition(journal, one[4]) for one in cursor.fetchall() if one[4] not in ends]


STEPS = {
    "plain": ["write", "write", "drain", "merge", "statement"],
    "stops": ["write", "write", "drain", "pause", "copy", "repair", "merge"],
    "all": ["write", "write", "drain", "killed", "rewind", "pause", "copy", "repair", "merge", "statement"],
}


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", tiers(["stops", "all"], turns=["plain"]))
@pytest.mark.parametrize("seed", [1])
def test_what_is_shown_is_what_the_source_had(shop: LandedShop, tmp_path: Path, kind: str, seed: int) -> None:
    """At the end of each transaction, or it is refused; at the ends of other events never half of a transaction."""
    witness = Witness(shop, tmp_path / "conf", random.Random(f"{kind} {seed}"))
    witness.create(*TABLES)
    for _ in range(14):
        getattr(witness, witness.rng.choice(STEPS[kind]))()
    witness.drain()
    shown = [witness.check(place, index) for index, place in enumerate(witness.places)]
    within = events_within(witness)
    for place in witness.rng.sample(within, min(12, len(within))):
        witness.check(place, None)
    assert any(shown)
    latest = as_of(shop.follows, "latest")
    index = max(at for at, one in enumerate(witness.places) if str(one) <= latest.position)
    assert not witness.fits(latest, index, witness.shown(latest))

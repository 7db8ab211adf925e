"""A shop whose tables land in change logs first, which are merged when a test says so."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import QueryBuilder

from cdc_core.position import EntryPosition
from orchestration.commands.service import call
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.changes.columns import EPOCH, NTH, VERSION
from spark_jobs.changes.versions import CURRENT
from spark_jobs.following.catch_up import CatchUp
from spark_jobs.following.follow import Follow, FollowOptions
from spark_jobs.following.history.historian import Historian
from spark_jobs.following.history.works import Works
from spark_jobs.following.merge import Merger
from spark_jobs.following.merged import Merged
from spark_jobs.following.now import build_view, refresh_landed_view, view_name
from spark_jobs.following.pending import PART_ROWS, Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.notes import Notes
from spark_jobs.landing.parked import Parked, Parking
from spark_jobs.session import Sessions
from tests.support.shop import Shop, opened_shop, until_running


class Killed(Exception):
    """A process that ends here."""


def dies(patch: pytest.MonkeyPatch, owner: Any, step: str, *, behind: bool) -> None:
    """From now on a process ends at that function of a module or a class: before it, or when it is done."""
    real: Callable[..., Any] = getattr(owner, step)

    def dying(*args: Any, **kwargs: Any) -> Any:
        if behind:
            real(*args, **kwargs)
        raise Killed

    patch.setattr(owner, step, dying)


def changes(rng: random.Random, table: str, keys: int = 12) -> list[str]:
    """Random statements on `id INT PRIMARY KEY, v VARCHAR(40), n DECIMAL(10, 2)`, of which one at least changes a
    row."""
    found = [f"REPLACE INTO {table} VALUES (0, 'first{rng.randrange(1 << 40)}', 0)"]
    for _ in range(rng.randint(1, 12)):
        one, other, value = rng.randrange(keys), rng.randrange(keys), rng.randrange(10_000)
        found.append(
            rng.choice(
                [
                    f"REPLACE INTO {table} VALUES ({one}, 'v{value}', {value}.25)",
                    f"REPLACE INTO {table} VALUES ({one}, NULL, NULL)",
                    f"UPDATE {table} SET v = 'u{value}' WHERE id <= {one}",
                    f"DELETE FROM {table} WHERE id = {one}",
                    f"DELETE FROM {table} WHERE id BETWEEN {one} AND {one + 3}",
                    f"UPDATE IGNORE {table} SET id = {other} WHERE id = {one}",
                ]
            )
        )
    return found


def copies(rng: random.Random, table: str) -> list[str]:
    """The same on `v VARCHAR(10), n INT, f DOUBLE` without a key, where many rows are equal."""
    texts, floats = ["'a'", "'b'", "NULL"], ["0e0", "-0e0", "1.5e0", "NULL"]
    found = [f"INSERT INTO {table} VALUES ('first', {rng.randrange(1 << 30)}, -0e0)"]
    for _ in range(rng.randint(1, 10)):
        text, other, value = rng.choice(texts), rng.choice(texts), rng.choice(floats)
        row = f"({text}, {rng.randrange(2)}, {value})"
        found.append(
            rng.choice(
                [
                    f"INSERT INTO {table} VALUES {row}, {row}, ({other}, NULL, 0e0)",
                    f"INSERT INTO {table} VALUES {row}",
                    f"UPDATE {table} SET v = {other} WHERE v <=> {text} LIMIT 2",
                    f"UPDATE {table} SET f = -f WHERE n <=> {rng.choice(['0', '1', 'NULL'])} LIMIT 3",
                    f"DELETE FROM {table} WHERE v <=> {text} LIMIT 2",
                    f"INSERT INTO {table} SELECT * FROM (SELECT * FROM {table} LIMIT 2) AS same",
                ]
            )
        )
    return found


@dataclass
class LandedShop(Shop):
    """`drain` lands, or merges, as the mode says; `mode` is that of `run`."""

    mode: Mode = Mode.LAND_FIRST

    def named(self, table: str) -> str:
        return f"{self.database}.{table}"

    @property
    def parking(self) -> Parking:
        return Parking(self.lake.lake, "shop", self.connector.client_id)

    @property
    def follows(self) -> Follows:
        return Follows(self.lake.lake, "shop", self.connector.client_id)

    def run(self, mode: Mode | None = None) -> None:
        """What is drained from here on is another run's, with that mode for all tables."""
        lake, sessions = self.lake.lake, self.lake.sessions
        self.lake = replace(self.lake, modes=Modes(mode or self.mode), fence=Fence(lake, sessions), notes=Notes())

    def land(self, batch_size: int = 1000) -> list[str]:
        """Another run lands all that the source has written. Returns the tables that stopped."""
        self.run()
        return self.drain(batch_size)

    def merger(self, part_rows: int = PART_ROWS, sessions: Sessions | None = None) -> Merger:
        """That of a new run."""
        sessions = sessions or self.lake.sessions
        follows = replace(self.follows, part_rows=part_rows)
        return Merger(follows, sessions, Fence(self.lake.lake, sessions), "run", self.lake.policies)

    def follow(self, *, parked: bool = False, remote: str = "") -> list[Merged | Parked]:
        """One run over all logs, until nothing is left."""
        merger = self.merger(sessions=Sessions(remote) if remote else None)
        pace = FollowOptions(parallelism=2, linger_seconds=0.0, parked=parked)
        works = Works(merger, lambda _: False)
        return list(Follow(works, self.parking, lambda: self.lake.lake.logs("shop"), pace).run())

    def reset(self, to: EntryPosition) -> None:
        """Rewinds to a place; what comes next is of another epoch."""
        place = {"journalName": to.journal_name, "position": to.position}
        body = {"to": place, "client_id": self.connector.client_id, "dry_run": False}
        call(self.connector.http_url, "", "POST", "/v1/destinations/shop/reset", body)
        until_running(self.connector)

    def merged(self, table: str) -> Counter[Any]:
        """The rows of the merged table."""
        there = self.lake.lake.open(self.lake.lake.path(self.database, table))
        return _counted(QueryBuilder().register("t", there).execute("SELECT * FROM t").read_all())

    def historian(self, part_rows: int = PART_ROWS, sessions: Sessions | None = None) -> Historian:
        """That of a new run."""
        merger = self.merger(part_rows, sessions)
        return Historian(merger.follows, merger.sessions, merger.fence, "run")

    def works(self, part_rows: int = PART_ROWS) -> Works:
        """A new run that keeps a history of every table."""
        return Works(self.merger(part_rows), lambda _: True)

    def keep(self, *tables: str, part_rows: int = PART_ROWS) -> None:
        """A new run merges the logs of these tables, and keeps their histories."""
        works = self.works(part_rows)
        for _ in range(3):
            for work in works.of([self.named(table) for table in tables]):
                while works.pending(work) and works.next(work):
                    pass

    def history(self, table: str) -> list[dict[str, Any]]:
        """The versions of each key, in order."""
        there = self.lake.lake.open(self.lake.lake.history_path(self.database, table))
        rows = QueryBuilder().register("t", there).execute("SELECT * FROM t").read_all()
        found: list[dict[str, Any]] = pa.table(rows).to_pylist()
        return sorted(found, key=lambda row: (row["id"], row[EPOCH], row[VERSION], row[NTH]))

    def current(self, table: str) -> Counter[Any]:
        """The rows that are current by the history, as `source` has them."""
        own = [field.name for field in self.lake.lake.open(self.lake.lake.path(self.database, table)).schema().fields]
        return Counter(tuple(row[name] for name in own) for row in self.history(table) if row[CURRENT])

    def now(self, table: str, *, anew: bool = True) -> Counter[Any]:
        """The rows of the view, which is rebuilt before if `anew`."""
        with self.lake.sessions.take() as spark:
            if anew:
                build_view(spark, self.follows, self.named(table))
            return _counted(spark.sql(f"SELECT * FROM {view_name(self.follows, self.named(table)).sql}").toArrow())

    def source(self, table: str) -> Counter[Any]:
        with self.mysql.root(self.database) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            return Counter(map(_exact, cursor.fetchall()))


@contextmanager
def opened_landed(mysql: MySqlServer, spark_remote: str, tmp_path: Path, **keys: str) -> Iterator[LandedShop]:
    """A shop whose tables land first."""
    with opened_shop(mysql, spark_remote, tmp_path, **keys) as shop:
        found = LandedShop(shop.mysql, shop.database, shop.connector, shop.lake, shop.server)
        follows, sessions = found.follows, shop.lake.sessions
        found.lake = replace(
            shop.lake,
            catch_up=CatchUp(found.parking),
            redefined=lambda table: refresh_landed_view(sessions, follows, table),
        )
        found.run()
        yield found


def _counted(rows: Any) -> Counter[Any]:
    return Counter(map(_exact, zip(*(column.to_pylist() for column in pa.table(rows).columns), strict=True)))


def _exact(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """0.0 and -0.0 are two values."""
    return tuple(repr(value) if isinstance(value, float) else value for value in row)

"""Small tables are written by one job of Spark as statements would write them: the same rows, counts and commits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.errors import PySparkException

from spark_jobs.apply.batch import apply_batch
from spark_jobs.apply.checks import judge
from spark_jobs.apply.result import TableResult
from spark_jobs.apply.table import FUSED, SQL
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.write import fused, order
from spark_jobs.write.order import Engine
from tests.support.spark_feed import Change, Feed, Row, Table, feed

pytestmark = pytest.mark.integration

KEYED = Table("keyed", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",))
BAG = Table("bag", pa.schema({"a": pa.int32(), "b": pa.string()}))
DRAWN: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "tiny": (pa.int8(), (-128, 0, 127)),
    "big": (pa.int64(), (-(2**63), 0, 2**63 - 1)),
    "unsigned": (pa.decimal128(20, 0), tuple(map(Decimal, (0, 2**53 + 1, 1234567890123456789, 2**60 + 3, 2**64 - 1)))),
    "exact": (pa.decimal128(38, 10), (Decimal("-0.0000000001"), Decimal("9999999999999999999999999999.9999999999"))),
    "bit": (pa.bool_(), (True, False)),
    "day": (pa.date32(), (date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31))),
    "local": (
        pa.timestamp("us"),
        (datetime(1000, 1, 1), datetime(7621, 7, 25, 21, 44, 38, 194333), datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ),
    "instant": (pa.timestamp("us", "UTC"), (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),)),
    "text": (pa.string(), ("", " ", "a", "A", "ä", "'\"`\\", "🐬" * 50, *map(str, range(200)))),
    "bytes": (pa.binary(), (b"", b"\x00", b"\xff\x00")),
    'odd.Name"with`dots': (pa.int32(), (1, 2)),
}
FLOATS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "single": (pa.float32(), (0.0, -0.0, 1.5)),
    "double": (pa.float64(), (0.0, -0.0, 1e300, -1e-300)),
}


@pytest.fixture
def service() -> Iterator[Feed]:
    with feed() as server:
        yield server


def rows(lake: Lake, table: str) -> Counter[Any]:
    found = QueryBuilder().register("t", DeltaTable(lake.path("shop", table))).execute("SELECT * FROM t").read_all()
    return Counter(repr(row) for row in zip(*(column.to_pylist() for column in pa.table(found).columns), strict=True))


class Script:
    """Random changes of one table, each of which is possible."""

    def __init__(self, rng: random.Random, table: Table, values: Sequence[Sequence[Any]]) -> None:
        self._rng, self.table, self._values = rng, table, values
        self._key = [table.fields.get_field_index(name) for name in table.key]
        self.there: list[Row] = []

    def changes(self, start: int, count: int) -> list[Change]:
        return [self._change(start + n + 1) for n in range(count)]

    def _change(self, position: int) -> Change:
        if not self.there or self._rng.random() < 0.5:
            return Change(position, None, self._put(self._row()))
        before = self.there.pop(self._rng.randrange(len(self.there)))
        return Change(position, before, None if self._rng.random() < 0.4 else self._put(self._row()))

    def _row(self) -> Row:
        while True:
            row = tuple(
                self._rng.choice(values) if at in self._key or self._rng.random() < 0.8 else None
                for at, values in enumerate(self._values)
            )
            key = [row[at] for at in self._key]
            if not key or all([one[at] for at in self._key] != key for one in self.there):
                return row

    def _put(self, row: Row) -> Row:
        self.there.append(row)
        return row


def scripts(rng: random.Random) -> list[Script]:
    """A table for each type as its key, one with them all behind a key of two, and three without a key."""
    every = DRAWN | FLOATS
    made = []
    wide = {name: kind for name, (kind, _) in every.items()}
    values = [values for _, values in every.values()]
    for at, name in enumerate(("unsigned", "exact", "local", "text", "bytes")):
        key = (name,) if name == "text" else (name, "text")
        made.append(Script(rng, Table(f"by_{at}", pa.schema(wide), key=key), values))
    made.append(Script(rng, Table("bag", pa.schema({name: kind for name, (kind, _) in DRAWN.items()})), values[:-2]))
    made.append(Script(rng, Table("floats", pa.schema(wide)), values))
    made.append(Script(rng, Table("few", pa.schema({"a": pa.int32(), "b": pa.string()})), [(1, 2), ("x", "y")]))
    return made


@pytest.mark.full
@pytest.mark.parametrize("seed", [1])
def test_both_engines_write_the_same_rows(service: Feed, sessions: Sessions, tmp_path: Path, seed: int) -> None:
    """Whatever the types of keys and values: claims of random changes, with one that comes again longer."""
    rng = random.Random(seed)
    made = scripts(rng)
    lakes = {engine: Lake(tmp_path / engine) for engine in Engine}
    fences = {engine: Fence(lakes[engine], sessions) for engine in Engine}
    bounds = [(0, 60), (60, 90), (60, 110)]
    by_table: dict[str, set[str]] = {}
    for batch, (start, end) in enumerate(bounds, 1):
        for script in made:
            done = bounds[batch - 2][1] if batch > 1 else 0
            service.put(script.table, script.changes(done, end - done))
        claim = service.claim(batch, start, end)
        found = {
            engine: apply_batch(claim, lakes[engine], sessions, service.url, fence=fences[engine], engine=engine)
            for engine in Engine
        }
        for engine, result in found.items():
            assert not result.refused, (engine, result.refused[0].error)
        for one, other in zip(found[Engine.AUTO].applied, found[Engine.SQL].applied, strict=True):
            assert told(one) == told(other)
            assert other.engine in (SQL, "")
            by_table.setdefault(one.table, set()).add(one.engine)
            for verdict in judge(claim, one):
                assert verdict.passed, verdict.text
        for script in made:
            name = script.table.name
            assert rows(lakes[Engine.AUTO], name) == rows(lakes[Engine.SQL], name), (name, seed)
    assert {name for name, engines in by_table.items() if SQL in engines} <= {"shop.floats"}


def told(result: TableResult) -> tuple[Any, ...]:
    """What a run learns of a table's commit."""
    commit = result.commit
    ends = (commit.end, commit.after, commit.source) if commit else ()
    counts = (commit.inserted, commit.updated, commit.deleted) if commit else ()
    return result.table, result.replayed, result.created, result.written, ends, counts


def test_a_later_try_judges_the_same_commit(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """What the job told is what the table's log tells a run that comes after it."""
    lake = Lake(tmp_path)
    service.put(KEYED, [Change(n, None, (n, "x")) for n in range(1, 9)])
    service.put(BAG, [Change(n, None, (1, "x")) for n in range(1, 9)])
    apply_batch(service.claim(1, 0, 8), lake, sessions, service.url)
    service.put(KEYED, [Change(9, (1, "x"), (1, "y")), Change(10, (2, "x"), None)])
    service.put(BAG, [Change(9, (1, "x"), None), Change(10, None, (2, "x"))])
    first = apply_batch(service.claim(2, 8, 10), lake, sessions, service.url).applied
    again = apply_batch(service.claim(3, 8, 10), lake, sessions, service.url).applied
    assert {one.engine for one in first} == {FUSED}
    assert [one.earlier.commits for one in again] == [(one.commit,) for one in first]


def test_changes_that_change_nothing_are_committed_too(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A row that comes and goes within one claim: the next run finds the table where the ledger has it."""
    lake = Lake(tmp_path)
    ledger = Ledger(lake, "d", 1)
    service.put(KEYED, [Change(1, None, (1, "x")), Change(2, None, (2, "x")), Change(3, (2, "x"), None)])
    service.put(KEYED, [Change(4, None, (3, "x")), Change(5, (3, "x"), None), Change(6, None, (4, "x"))])
    service.put(BAG, [Change(1, None, (1, "x")), Change(2, None, (2, "x")), Change(3, (2, "x"), None)])
    for batch, (start, end) in enumerate([(0, 1), (1, 3), (3, 5), (5, 6)], 1):
        claim = service.claim(batch, start, end)
        result = apply_batch(claim, lake, sessions, service.url)
        assert not result.refused, result.refused[0].error
        assert {one.engine for one in result.applied} <= {FUSED, ""}
        ledger.note(claim, result.notes({}), "r", 0.0, result.log_ends, result.table_ends)
    assert rows(lake, "keyed") == Counter(["(1, 'x')", "(4, 'x')"])


def test_a_run_goes_on_behind_another_writer(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """A copy or a repair fences the table between two claims of one run."""
    lake = Lake(tmp_path)
    fence = Fence(lake, sessions)
    service.put(KEYED, [Change(n, None, (n, "x")) for n in range(1, 9)])
    apply_batch(service.claim(1, 0, 4), lake, sessions, service.url, fence=fence)
    _fenced(lake, sessions, lake.path("shop", "keyed"))
    (one,) = apply_batch(service.claim(2, 4, 8), lake, sessions, service.url, fence=fence).applied
    assert (one.engine, sum(rows(lake, "keyed").values())) == (FUSED, 8)


def test_a_share_of_many_bytes_goes_by_a_statement(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """However few its rows are: a task does not hold them."""
    lake = Lake(tmp_path)
    service.put(KEYED, [Change(n, None, (n, str(n) * (9 << 20))) for n in range(1, 5)])
    (one,) = apply_batch(service.claim(1, 0, 4), lake, sessions, service.url).applied
    assert (one.engine, sum(rows(lake, "keyed").values())) == (SQL, 4)


def test_a_table_that_grows_goes_by_statements(
    service: Feed, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the size of its files or of its share."""
    lake = Lake(tmp_path)
    service.put(KEYED, [Change(n, None, (n, "x")) for n in range(1, 9)])
    (one,) = apply_batch(service.claim(1, 0, 4), lake, sessions, service.url).applied
    monkeypatch.setattr(order, "MOST_ROWS", 3)
    monkeypatch.setattr("spark_jobs.apply.together.MOST_ROWS", 3)
    (other,) = apply_batch(service.claim(2, 4, 8), lake, sessions, service.url).applied
    assert (one.engine, other.engine) == (FUSED, SQL)
    assert sum(rows(lake, "keyed").values()) == 8


def _fenced(lake: Lake, sessions: Sessions, path: str) -> None:
    state = lake.state(path, "")
    assert state is not None
    Fence(lake, sessions).enter(path, "", state)


def _overtaken(lake: Lake, _: Sessions, path: str) -> None:
    from deltalake import CommitProperties, Transaction, write_deltalake

    noted = CommitProperties(app_transactions=[Transaction(app_id("d", 1, "shop.keyed", 1), 1 << 62)])
    write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(0, 0), mode="append", commit_properties=noted)


@pytest.mark.parametrize("meanwhile", [_fenced, _overtaken])
def test_a_late_task_writes_nothing(
    service: Feed,
    sessions: Sessions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[Lake, Sessions, str], None],
) -> None:
    """Another run fences the table, or has that version, before the job begins: its orders add nothing."""
    lake = Lake(tmp_path)
    service.put(KEYED, [Change(n, None, (n, "x")) for n in range(1, 9)])
    service.put(BAG, [Change(n, None, (n, "x")) for n in range(1, 9)])
    apply_batch(service.claim(1, 0, 4), lake, sessions, service.url)
    write_all, outcomes = fused.write_all, list[order.Outcome]()

    def late(spark: Any, orders: Sequence[order.Order], tasks: int) -> list[order.Outcome]:
        for one in orders:
            if one.path.endswith("keyed"):
                meanwhile(lake, sessions, one.path)
        outcomes.extend(write_all(spark, orders, tasks))
        return outcomes

    monkeypatch.setattr("spark_jobs.apply.together.write_all", late)
    monkeypatch.setattr("spark_jobs.apply.batch._write_or_refuse", lambda *_: None)
    apply_batch(service.claim(2, 4, 8), lake, sessions, service.url)
    assert sorted(bool(one.why) for one in outcomes) == [False, True]
    assert (sum(rows(lake, "keyed").values()), sum(rows(lake, "bag").values())) == (4, 8)


@pytest.mark.parametrize("fails", [False, True])
def test_what_the_job_leaves_a_statement_writes(
    service: Feed, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A job that dies in the middle, or that fails there: a table that it committed is there once, the others come by
    statements."""
    lake = Lake(tmp_path)
    service.put(KEYED, [Change(n, None, (n, "x")) for n in range(1, 9)])
    service.put(BAG, [Change(n, None, (n, "x")) for n in range(1, 9)])
    apply_batch(service.claim(1, 0, 4), lake, sessions, service.url)
    write_all = fused.write_all

    def dies(spark: Any, orders: Sequence[order.Order], tasks: int) -> list[order.Outcome]:
        write_all(spark, orders[:1], tasks)
        if fails:
            raise PySparkException("a worker has no delta-rs")
        return []

    monkeypatch.setattr("spark_jobs.apply.together.write_all", dies)
    claim = service.claim(2, 4, 8)
    result = apply_batch(claim, lake, sessions, service.url)
    assert not result.refused
    for one in result.applied:
        for verdict in judge(claim, one):
            assert verdict.passed, verdict.text
    assert (sum(rows(lake, "keyed").values()), sum(rows(lake, "bag").values())) == (8, 8)

"""Small tables are written by one job of Spark as statements would write them: the same rows, counts and commits."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_core.contract.claim import Claim
from spark_jobs.apply.checks import judge
from spark_jobs.apply.result import TableResult
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.policies import Changed, Policies, TablePolicy
from spark_jobs.lake.row_rules import Deletes, LastChange, RowRules
from spark_jobs.lake.state import app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import transaction
from spark_jobs.session import Sessions
from spark_jobs.write import fused, order
from spark_jobs.write.order import FUSED, SQL, Engine
from tests.support.applying import apply_batch
from tests.support.random_changes import rows, scripts
from tests.support.spark_feed import Change, Feed, Table

pytestmark = pytest.mark.integration

KEYED = Table("keyed", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",))
BAG = Table("bag", pa.schema({"a": pa.int32(), "b": pa.string()}))
RULES = RowRules(
    deletes_by={"shop.soft*": Deletes.SOFT},
    columns_by={"shop.soft": tuple(LastChange), "shop.marked*": tuple(LastChange)},
)


def half_applied(service: Feed, sessions: Sessions, folder: Path) -> Lake:
    """Returns a lake where both tables have the first four of their eight rows."""
    lake = Lake(folder)
    service.put(KEYED, [Change(n, None, (n, "x")) for n in range(1, 9)])
    service.put(BAG, [Change(n, None, (n, "x")) for n in range(1, 9)])
    apply_batch(service.claim(1, 0, 4), lake, sessions, service.url)
    return lake


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.parametrize("seed", [1])
def test_both_engines_write_the_same_rows(service: Feed, sessions: Sessions, tmp_path: Path, seed: int) -> None:
    """Whatever the types of keys and values: claims of random changes, with one that comes again longer."""
    rng = random.Random(seed)
    made = scripts(rng)
    lakes = {engine: Lake(tmp_path / engine, rules=RULES) for engine in Engine}
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


@pytest.mark.in_turn
def test_both_engines_forget_a_column_that_is_gone(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """Of a row that was inserted again, or that got the key of another one; a row that stays keeps what it had in the
    column. In one claim as in several."""
    policies = Policies(TablePolicy(changed=Changed.LENIENT))
    lakes = {engine: Lake(tmp_path / engine, rules=RULES) for engine in Engine}
    names = ("soft_gone", "marked_gone", "plain_gone")
    for name in names:
        wide = Table(name, pa.schema({"id": pa.int64(), "what": pa.string(), "gone": pa.string()}), key=("id",))
        service.put(wide, [Change(n, None, (n, "x", "y")) for n in range(1, 8)] + [Change(8, (5, "x", "y"), None)])
    _applied(service.claim(1, 0, 8), service, sessions, lakes, policies)
    for name in names:
        narrow = Table(name, pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",))
        service.changes[f"shop.{name}"].clear()
        again = [Change(9, (2, "x"), None), Change(10, None, (2, "z")), Change(11, (3, "x"), (3, "z"))]
        again += [Change(12, (4, "x"), None), Change(13, None, (5, "z"))]
        service.put(narrow, [*again, Change(14, (6, "x"), None), Change(15, (7, "x"), (6, "x"))])
    _applied(service.claim(2, 8, 15), service, sessions, lakes, policies)
    for name in names:
        assert rows(lakes[Engine.AUTO], name) == rows(lakes[Engine.SQL], name)
        found = DeltaTable(lakes[Engine.AUTO].path("shop", name)).to_pyarrow_table().sort_by("id")
        had = dict(zip(found["id"].to_pylist(), found["gone"].to_pylist(), strict=True))
        there = {1: "y", 2: None, 3: "y", 5: None, 6: None}
        assert had == (there | {4: "y", 7: "y"} if name == "soft_gone" else there), name


def _applied(claim: Claim, service: Feed, sessions: Sessions, lakes: dict[Engine, Lake], policies: Policies) -> None:
    for engine, lake in lakes.items():
        result = apply_batch(claim, lake, sessions, service.url, engine=engine, policies=policies)
        assert not result.refused, result.refused[0].error
        assert {one.engine for one in result.applied} == {FUSED if engine is Engine.AUTO else SQL}


def test_a_later_try_judges_the_same_commit(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """What the job reported is what a later run finds in the table's log."""
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


def test_a_run_goes_on_after_another_writer(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
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


def _adds(path: str) -> list[dict[str, Any]]:
    """The files that the commits added, each with its deletion vector, None for none."""
    lines = (line for one in Path(path, "_delta_log").glob("*.json") for line in one.read_text().splitlines())
    return [{"deletionVector": None} | found["add"] for line in lines if "add" in (found := json.loads(line))]


def _given_vectors(sessions: Sessions, path: str) -> None:
    with sessions.take() as spark:
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        spark.sql(f"INSERT INTO delta.`{path}` SELECT 100 + id, 'gone' FROM range(0, 5000, 1, 1)").collect()
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 101").collect()
    assert any(file["deletionVector"] for file in _adds(path))


def _grown(_: Sessions, path: str) -> None:
    large = pa.table({"id": [100], "what": [random.Random(1).randbytes(20 << 20).hex()]})
    write_deltalake(path, large, mode="append")


@pytest.mark.parametrize("becomes", [_given_vectors, _grown])
def test_a_table_that_changes_in_the_middle_goes_by_a_statement(
    service: Feed,
    sessions: Sessions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    becomes: Callable[[Sessions, str], None],
) -> None:
    """It gets deletion vectors, or becomes large, after the choice of the engine and before the job."""
    lake = half_applied(service, sessions, tmp_path)
    write_all = fused.write_all

    def late(pool: Sessions, orders: Sequence[order.Order], tasks: int) -> list[order.Outcome]:
        becomes(sessions, lake.path("shop", "keyed"))
        return write_all(pool, orders, tasks)

    with monkeypatch.context() as patched:
        patched.setattr("spark_jobs.apply.together.write_all", late)
        result = apply_batch(service.claim(2, 4, 8), lake, sessions, service.url)
    assert not result.refused, result.refused[0].error
    assert {one.table: one.engine for one in result.applied} == {"shop.keyed": SQL, "shop.bag": FUSED}
    with sessions.take() as spark:
        found = spark.read.format("delta").load(lake.path("shop", "keyed")).where("id < 100").collect()
        gone = spark.read.format("delta").load(lake.path("shop", "keyed")).where("id = 101").count()
    assert sorted(tuple(row) for row in found) == [(n, "x") for n in range(1, 9)]
    if becomes is _given_vectors:
        assert gone == 0


def test_a_late_statement_of_a_dead_run_adds_nothing(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """One of a claim that the job has written since, whole or longer."""
    lake = Lake(tmp_path)
    service.put(BAG, [Change(n, None, (n, "x")) for n in range(1, 9)])
    apply_batch(service.claim(1, 0, 4), lake, sessions, service.url)
    path, app = lake.path("shop", "bag"), app_id("d", 1, "shop.bag", 1)
    dead = [service.claim(2, 4, end).end.version() for end in (6, 8)]
    (one,) = apply_batch(service.claim(3, 4, 8), lake, sessions, service.url).applied
    assert one.engine == FUSED
    for version in dead:
        with sessions.take() as spark, transaction(spark, app, version):
            spark.sql(f"INSERT INTO delta.`{path}` VALUES (5, 'x')").collect()
    assert rows(lake, "bag") == Counter(f"({n}, 'x')" for n in range(1, 9))


def _fenced(lake: Lake, sessions: Sessions, path: str) -> None:
    state = lake.state(path, "")
    assert state is not None
    Fence(lake, sessions).enter(path, "", state)


def _overtaken(lake: Lake, _: Sessions, path: str) -> None:
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
    lake = half_applied(service, sessions, tmp_path)
    write_all, outcomes = fused.write_all, list[order.Outcome]()

    def late(pool: Sessions, orders: Sequence[order.Order], tasks: int) -> list[order.Outcome]:
        for one in orders:
            if one.path.endswith("keyed"):
                meanwhile(lake, sessions, one.path)
        outcomes.extend(write_all(pool, orders, tasks))
        return outcomes

    monkeypatch.setattr("spark_jobs.apply.together.write_all", late)
    monkeypatch.setattr("spark_jobs.apply.batch._write_or_refuse", lambda *_: None)
    apply_batch(service.claim(2, 4, 8), lake, sessions, service.url)
    assert sorted(bool(one.why) for one in outcomes) == [False, True]
    assert (sum(rows(lake, "keyed").values()), sum(rows(lake, "bag").values())) == (4, 8)


def test_what_the_job_leaves_a_statement_writes(
    service: Feed, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that dies in the middle: a table that it committed is there once, the others come by statements."""
    lake = half_applied(service, sessions, tmp_path)
    write_all = fused.write_all

    def dies(pool: Sessions, orders: Sequence[order.Order], tasks: int) -> list[order.Outcome]:
        write_all(pool, orders[:1], tasks)
        return [order.Outcome(why="the job died")] * len(orders)

    monkeypatch.setattr("spark_jobs.apply.together.write_all", dies)
    claim = service.claim(2, 4, 8)
    result = apply_batch(claim, lake, sessions, service.url)
    assert not result.refused
    for one in result.applied:
        for verdict in judge(claim, one):
            assert verdict.passed, verdict.text
    assert (sum(rows(lake, "keyed").values()), sum(rows(lake, "bag").values())) == (8, 8)

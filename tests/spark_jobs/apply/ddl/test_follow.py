"""spark_jobs.apply.ddl.follow on a real Spark server: the lake after statements, replays and kills."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from cdc_core.errors import LakeError
from cdc_core.schema.ddl import Effect, EffectKind
from spark_jobs.apply.ddl import creation, follow, renaming
from spark_jobs.apply.ddl.steps import Step
from spark_jobs.apply.result import Followed, Refusal
from spark_jobs.apply.table import Batch
from spark_jobs.lake.policies import Dropped, TablePolicy
from spark_jobs.lake.replacement import replace_table
from spark_jobs.session import Sessions
from tests.support.ddl_claims import effect, schema, statement
from tests.support.ddl_text import altered
from tests.support.lake_trial import LakeTrial, inserts, version
from tests.support.spark_feed import JOURNAL, Change, Table, feed

pytestmark = pytest.mark.integration

FIELDS = pa.schema({"id": pa.int64(), "what": pa.string()})
ORDERS = Table("orders", FIELDS, key=("id",))
CREATE = effect(EffectKind.CREATE, "orders", schema=schema("orders", comment="it's ordered"))
DROP, TRUNCATE = effect(EffectKind.DROP, "orders"), effect(EffectKind.TRUNCATE, "orders")


@pytest.fixture
def trial(sessions: Sessions, tmp_path: Path) -> Iterator[LakeTrial]:
    with feed() as service:
        yield LakeTrial(service, sessions, tmp_path)


def test_a_created_table_is_there_before_its_first_row(trial: LakeTrial) -> None:
    """With its columns, comments, key and the statement's version; a replay adds nothing."""
    batch = trial.apply(0, 100, statement(100, CREATE, text="CREATE TABLE orders"))
    (made,) = batch.followed
    assert (made.table, made.kind, made.text, made.outcome) == ("shop.orders", "create", "CREATE TABLE orders", "made")
    state = trial.state("orders")
    assert (state.version, state.applied, state.primary_key) == (0, version(100), ("id",))
    assert [(c.name, c.type, c.comment) for c in state.columns] == [
        ("id", "bigint", ""),
        ("what", "string", "the what"),
    ]
    assert DeltaTable(trial.lake.path("shop", "orders")).metadata().description == "it's ordered"
    trial.service.put(ORDERS, inserts(1, 2, at=200))
    for _ in range(2):
        trial.apply(0, 200, statement(100, CREATE))
    assert trial.rows("orders") == {(1, "x"): 1, (2, "x"): 1}


def test_many_tables_are_made_with_their_rows_in_one_claim(trial: LakeTrial) -> None:
    """Whatever of it an earlier try did, and wherever the claim ends then: each has its rows once, with and without a
    key."""
    tables = [Table(f"t{number}", FIELDS, key=("id",) if number % 2 else ()) for number in range(4)]
    made = []
    for number, table in enumerate(tables):
        create = effect(EffectKind.CREATE, table.name, schema=schema(table.name, key=table.key))
        made.append(statement(100 + 100 * number, create))
        trial.service.put(table, inserts(1, 2, at=150 + 100 * number))
    trial.service.put(ORDERS, inserts(7, at=120))
    trial.apply(0, 260, *made[:2])
    first = {table.name: trial.state(table.name).version for table in tables[:2]}
    for end, count in ((460, 4), (360, 3), (460, 4)):
        batch = trial.apply(0, end, *made[:count])
        assert [one.outcome for one in batch.followed][:2] == ["done before"] * 2
    assert [trial.rows(table.name) for table in tables] == [{(1, "x"): 1, (2, "x"): 1}] * 4
    assert trial.rows("orders") == {(7, "x"): 1}
    assert {name: trial.state(name).properties["sluice.begun"] for name in first} == {
        "t0": f"1:{version(100)}",
        "t1": f"1:{version(200)}",
    }


@pytest.mark.in_turn
@pytest.mark.parametrize("died", [None, 1, 2, 3])
def test_statements_among_rows_of_other_tables_come_in_one_claim(
    trial: LakeTrial, monkeypatch: pytest.MonkeyPatch, died: int | None
) -> None:
    """Each table is altered, emptied or dropped before its rows of the claim. Wherever an earlier try died, and a claim
    ends then, each row is there once, with and without a key, and earlier rows are as the statement left them."""
    keys = {"added": ("id",), "keyless": (), "emptied": ("id",), "again": ("id",)}
    before = {name: schema(name, key=key) for name, key in keys.items()}
    wider = {name: altered(before[name], f"ALTER TABLE {name} ADD more INT DEFAULT 7") for name in ("added", "keyless")}
    ddl = [
        statement(100, *wider["added"]),
        statement(200, *wider["keyless"]),
        statement(300, effect(EffectKind.TRUNCATE, "emptied")),
        statement(400, effect(EffectKind.DROP, "again")),
        statement(410, effect(EffectKind.CREATE, "again", schema=before["again"])),
    ]
    for name, key in keys.items():
        trial.service.put(Table(name, FIELDS, key), inserts(1, 2, at=50))
    trial.apply(0, 50)
    trial.service.changes.clear()
    fields = pa.schema([*FIELDS, ("more", pa.int32())])
    updated, inserted = Change(150, (2, "x", 7), (2, "x", 9)), Change(150, None, (3, "x", 9))
    trial.service.put(Table("added", fields, keys["added"]), [updated, inserted])
    trial.service.put(Table("keyless", fields), [replace(updated, position=250), replace(inserted, position=250)])
    trial.service.put(Table("emptied", FIELDS, keys["emptied"]), inserts(2, 3, at=350))
    trial.service.put(Table("again", FIELDS, keys["again"]), inserts(2, 3, at=450))
    trial.service.put(ORDERS, inserts(7, at=120))
    if died is not None:
        calls, outcome = itertools.count(1), follow._outcome

        def dies(*given: Any) -> str:
            done = outcome(*given)
            if next(calls) == died:
                raise LakeError("the run died", hint="None.")
            return done

        with monkeypatch.context() as patched:
            patched.setattr(follow, "_outcome", dies)
            with pytest.raises(LakeError, match="the run died"):
                trial.apply(50, 460, *ddl)
    for end in (260, 120, 460):
        trial.apply(50, end, *(one for one in ddl if one.position.position <= end))
    trial.apply(50, 460, *ddl)
    assert trial.rows("added") == trial.rows("keyless") == {(1, "x", 7): 1, (2, "x", 9): 1, (3, "x", 9): 1}
    assert trial.rows("emptied") == trial.rows("again") == {(2, "x"): 1, (3, "x"): 1}
    assert trial.rows("orders") == {(7, "x"): 1}


@pytest.mark.in_turn
@pytest.mark.parametrize("died", [None, 1, 2, 3, 4])
def test_statements_on_several_tables_among_rows_of_others_come_in_one_claim(
    trial: LakeTrial, monkeypatch: pytest.MonkeyPatch, died: int | None
) -> None:
    """A swap by RENAME, a DROP of two tables and a RENAME of one without a key, with rows of another table before and
    between them. Wherever an earlier try died, and a claim ends then, each row is there once, under its present
    name."""
    renamed, dropped, moved = (
        statement(100, effect(EffectKind.RENAME, "live", to="old"), effect(EffectKind.RENAME, "next", to="live")),
        statement(200, effect(EffectKind.DROP, "one"), effect(EffectKind.DROP, "other")),
        statement(300, effect(EffectKind.RENAME, "bag", to="sack")),
    )
    for name, ids in (("live", (1, 2)), ("next", (5, 6)), ("one", (1,)), ("other", (1,))):
        trial.service.put(Table(name, FIELDS, ("id",)), inserts(*ids, at=50))
    trial.service.put(Table("bag", FIELDS), inserts(1, 2, at=50))
    trial.apply(0, 50)
    trial.service.tables.clear()
    trial.service.changes.clear()
    changes = [Change(350, (5, "x"), (5, "y")), Change(350, None, (7, "x"))]
    trial.service.put(Table("live", FIELDS, ("id",)), changes)
    trial.service.put(Table("sack", FIELDS), [Change(360, (1, "x"), None), Change(360, None, (2, "x"))])
    trial.service.put(ORDERS, [*inserts(7, at=90), *inserts(8, at=150), *inserts(9, at=250)])
    if died is not None:
        calls, outcomes = itertools.count(1), follow._outcomes

        def dies(*given: Any) -> Iterator[Any]:
            for one in outcomes(*given):
                if next(calls) == died:
                    raise LakeError("the run died", hint="None.")
                yield one

        with monkeypatch.context() as patched:
            patched.setattr(follow, "_outcomes", dies)
            with pytest.raises(LakeError, match="the run died"):
                trial.apply(50, 370, renamed, dropped, moved)
    for end in (120, 350, 260):
        trial.apply(50, end, *(one for one in (renamed, dropped, moved) if one.position.position <= end))
    trial.apply(50, 370, renamed, dropped, moved)
    assert trial.rows("live") == {(5, "y"): 1, (6, "x"): 1, (7, "x"): 1}
    assert trial.rows("old") == {(1, "x"): 1, (2, "x"): 1}
    assert trial.rows("sack") == {(2, "x"): 2}
    assert trial.rows("orders") == {(7, "x"): 1, (8, "x"): 1, (9, "x"): 1}
    assert all(trial.state(name).dropped for name in ("next", "one", "other", "bag"))


def test_statements_of_different_tables_are_followed_side_by_side(
    trial: LakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order for each table, listed in the order of the claim; one that stops does not stop the others."""
    for name in ("orders", "items"):
        trial.service.put(Table(name, FIELDS, key=("id",)), inserts(1, at=100))
    trial.apply(0, 100)
    with trial.sessions.take() as spark:
        spark.sql(f"CREATE TABLE delta.`{trial.lake.path('shop', 'stock')}` (id bigint) USING delta").collect()
    met, both, outcomes = list[tuple[str, ...]](), threading.Barrier(2, timeout=60), follow._outcomes

    def met_first(batch: Batch, step: Step, stopped: Collection[str]) -> Iterator[Followed | Refusal]:
        met.append(step.tables)
        if step.version in (version(200), version(300)):
            both.wait()
        yield from outcomes(batch, step, stopped)

    monkeypatch.setattr(follow, "_outcomes", met_first)
    rename, truncate = effect(EffectKind.RENAME, "orders", to="sold"), effect(EffectKind.TRUNCATE, "items")
    other = effect(EffectKind.TRUNCATE, "stock")
    batch = trial.apply(
        100, 400, statement(200, rename), statement(210, other), statement(300, truncate), statement(310, CREATE)
    )
    assert met.index(("shop.orders", "shop.sold")) < met.index(("shop.orders",))
    assert [(one.table, one.kind) for one in batch.followed] == [
        ("shop.sold", "rename"),
        ("shop.orders", "rename"),
        ("shop.items", "truncate"),
        ("shop.orders", "create"),
    ]
    assert [refusal.table for refusal in batch.refused] == ["shop.stock"]
    assert (trial.rows("sold"), trial.rows("items"), trial.rows("orders")) == ({(1, "x"): 1}, {}, {})


def test_an_error_that_is_no_tables_own_ends_the_try(trial: LakeTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the tables under way are at rest. Others do not begin, and follow when the claim comes again."""
    names = [f"t{number}" for number in range(12)]
    ddl = [statement(100 + at, effect(EffectKind.CREATE, name, schema=schema(name))) for at, name in enumerate(names)]

    def away(*_: object) -> str:
        raise LakeError("Spark is away", hint="Start it.")

    with monkeypatch.context() as patched:
        patched.setattr(follow, "create", away)
        with pytest.raises(LakeError, match="Spark is away"):
            trial.apply(0, 200, *ddl)
    assert [one.outcome for one in trial.apply(0, 200, *ddl).followed] == ["made"] * len(names)


def test_a_table_that_another_run_made_meanwhile_ends_the_try(
    trial: LakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement of a dead run comes late. The next try finds the table, and its rows come once."""
    trial.service.put(ORDERS, inserts(1, at=150))
    with monkeypatch.context() as patched:
        late = creation.make_table
        patched.setattr(creation, "make_table", lambda *given: late(*given) and late(*given))
        with pytest.raises(LakeError, match="cannot be created"):
            trial.apply(0, 200, statement(100, CREATE))
    (made,) = trial.apply(0, 200, statement(100, CREATE)).followed
    assert (made.outcome, trial.rows("orders")) == ("done before", {(1, "x"): 1})


def test_truncate_deletes_all_rows_and_nothing_later(trial: LakeTrial) -> None:
    """Rows after the statement stay, also when the claim comes again with other boundaries."""
    trial.service.put(ORDERS, inserts(1, 2, at=100))
    trial.apply(0, 100)
    trial.service.put(ORDERS, inserts(2, 3, at=300))
    trial.service.put(ORDERS, inserts(4, at=400))
    trial.apply(100, 200, statement(200, TRUNCATE))
    assert trial.rows("orders") == {}
    assert trial.state("orders").applied == version(200)
    trial.apply(100, 300, statement(200, TRUNCATE))
    trial.apply(100, 400, statement(200, TRUNCATE))
    assert trial.rows("orders") == {(2, "x"): 1, (3, "x"): 1, (4, "x"): 1}


def test_truncate_of_an_empty_table_has_its_version(trial: LakeTrial) -> None:
    """The commit is there although no row went."""
    trial.apply(0, 100, statement(100, CREATE))
    trial.apply(100, 200, statement(200, TRUNCATE))
    assert trial.state("orders").applied == version(200)


@pytest.mark.parametrize("known", [True, False])
def test_drop_and_create_leave_no_stale_row(trial: LakeTrial, known: bool) -> None:
    """The dropped table's rows stay until the name is used again; then only the new table's rows are there."""
    trial.service.put(ORDERS, inserts(1, 2, at=100))
    trial.apply(0, 100)
    trial.apply(100, 200, statement(200, DROP))
    assert len(trial.rows("orders")) == 2
    assert trial.state("orders").properties["sluice.dropped"] == f"{JOURNAL}:200"
    create = CREATE if known else effect(EffectKind.CREATE, "orders")
    trial.apply(200, 300, statement(300, create))
    assert trial.rows("orders") == {}
    other = Table("orders", pa.schema({"id": pa.int64(), "n": pa.int32()}), key=("id",))
    trial.service.changes.clear()
    trial.service.put(ORDERS if known else other, [Change(400, None, (2, "new" if known else 7))])
    trial.apply(200, 400, statement(300, create))
    assert trial.rows("orders") == {(2, "new" if known else 7): 1}
    assert not trial.state("orders").dropped


def test_drop_and_create_in_one_claim(trial: LakeTrial) -> None:
    """In order, and before the rows; a replay of all of it changes nothing."""
    trial.service.put(ORDERS, inserts(1, 2, at=100))
    trial.apply(0, 100)
    trial.service.put(ORDERS, inserts(2, at=400))
    for _ in range(2):
        trial.apply(100, 400, statement(200, DROP), statement(300, CREATE))
        assert trial.rows("orders") == {(2, "x"): 1}


def test_create_if_not_exists_leaves_a_table_as_it_is(trial: LakeTrial) -> None:
    """The binlog has the statement also where the table was there; after a DROP it makes the table."""
    create = replace(CREATE, conditional=True)
    trial.service.put(ORDERS, inserts(1, at=100))
    trial.apply(0, 100)
    trial.apply(100, 200, statement(200, create))
    assert len(trial.rows("orders")) == 1
    trial.apply(200, 400, statement(300, DROP), statement(400, create))
    assert trial.rows("orders") == {}


@pytest.mark.parametrize("dropped", [Dropped.ARCHIVE, Dropped.DROP])
def test_a_dropped_table_is_archived_or_deleted(trial: LakeTrial, dropped: Dropped) -> None:
    """By policy its rows move aside or go with their files; a replay changes nothing."""
    trial.service.put(ORDERS, inserts(1, 2, at=100))
    trial.apply(0, 100)
    for _ in range(2):
        trial.apply(100, 200, statement(200, DROP), policy=TablePolicy(dropped))
    assert trial.rows("orders") == {}
    assert trial.state("orders").dropped
    archive = trial.lake.archive_path("d", "shop.orders", version(200))
    if dropped is Dropped.ARCHIVE:
        found = pa.table(QueryBuilder().register("t", DeltaTable(archive)).execute("SELECT id FROM t").read_all())
        assert sorted(found.column("id").to_pylist()) == [1, 2]
    else:
        assert not Path(archive).exists()
        files = Path(trial.lake.path("shop", "orders")).glob("*.parquet")
        assert sum(pq.ParquetFile(file).metadata.num_rows for file in files) == 0


def test_a_table_that_is_not_ours_stops_alone(trial: LakeTrial) -> None:
    """A statement does not touch a foreign Delta table; other tables follow theirs."""
    with trial.sessions.take() as spark:
        spark.sql(f"CREATE TABLE delta.`{trial.lake.path('shop', 'orders')}` (id bigint) USING delta").collect()
    others = effect(EffectKind.CREATE, "others", schema=schema("others"))
    batch = trial.apply(0, 200, statement(100, TRUNCATE), statement(200, others))
    assert [refusal.table for refusal in batch.refused] == ["shop.orders"]
    assert [followed.table for followed in batch.followed] == ["shop.others"]


def test_a_renamed_table_takes_its_rows_along(trial: LakeTrial) -> None:
    """Into another database too; the old name has no rows, and can be used again. A replay changes nothing."""
    trial.service.put(ORDERS, inserts(1, 2, at=100))
    trial.apply(0, 100)
    rename = effect(EffectKind.RENAME, "orders", to="archive.orders of 2025")
    for _ in range(2):
        trial.apply(100, 300, statement(200, rename), statement(300, CREATE))
        assert trial.rows("orders of 2025", "archive") == {(1, "x"): 1, (2, "x"): 1}
        assert trial.rows("orders") == {}
    state = trial.state("orders of 2025", "archive")
    assert (state.applied, state.primary_key) == (version(200), ("id",))
    assert [column.comment for column in state.columns] == ["the id", "the what"]


@pytest.mark.parametrize("killed_after", [1, 2])
def test_a_swap_of_two_tables_survives_a_kill(
    trial: LakeTrial, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    """A run dies between the commits or after them; the next one finishes what is left, with the rows of before."""
    others = Table("others", FIELDS, key=("id",), comment="the others")
    trial.service.put(ORDERS, inserts(1, at=100))
    trial.service.put(others, [Change(100, None, (1, "other")), Change(100, None, (2, "other"))])
    trial.apply(0, 100)
    names = [("orders", "tmp"), ("others", "orders"), ("tmp", "others")]
    swap = statement(200, *(effect(EffectKind.RENAME, name, to=to) for name, to in names))
    trial.service.put(others, [Change(300, None, (3, "later"))])
    left = killed_after

    def replace_or_die(*args: Any) -> None:
        nonlocal left
        if left == 0:
            raise SystemExit("killed")
        left -= 1
        replace_table(*args)

    monkeypatch.setattr(renaming, "replace_table", replace_or_die)
    with suppress(SystemExit):
        trial.apply(100, 300, swap)
    monkeypatch.undo()
    for _ in range(2):
        trial.apply(100, 300, swap)
        assert trial.rows("orders") == {(1, "other"): 1, (2, "other"): 1}
        assert trial.rows("others") == {(1, "x"): 1, (3, "later"): 1}
    assert trial.state("orders").comment == "the others"


def test_a_table_renamed_from_one_that_the_lake_lacks_must_be_copied(trial: LakeTrial) -> None:
    """Its rows are nowhere in the lake. The reason and the remedy are reported."""
    trial.service.put(ORDERS, inserts(1, at=100))
    trial.apply(0, 100)
    swap = effect(EffectKind.RENAME, "orders", to="_orders_del"), effect(EffectKind.RENAME, "_orders_gho", to="orders")
    (refusal,) = trial.apply(100, 200, statement(200, *swap)).refused
    assert refusal.table == "shop.orders"
    assert "renamed from shop._orders_gho, which the lake does not have" in refusal.error.message
    assert "sluice copy" in refusal.error.hint


def test_a_dropped_database_drops_its_tables(trial: LakeTrial) -> None:
    """Those of this destination; other databases stay."""
    trial.apply(0, 100, statement(100, CREATE, effect(EffectKind.CREATE, "others", schema=schema("others"))))
    gone = Effect(EffectKind.DROP_DATABASE, "shop", "")
    batch = trial.apply(100, 200, statement(200, gone), statement(200, Effect(EffectKind.DROP_DATABASE, "absent", "")))
    assert {followed.table for followed in batch.followed} == {"shop.orders", "shop.others"}
    assert trial.state("orders").dropped
    assert trial.state("others").dropped


def test_a_rewind_across_statements_repeats_only_what_is_after_them(trial: LakeTrial) -> None:
    """The table has what was before, in the columns of now: old rows and the statements themselves come to nothing."""
    trial.service.put(ORDERS, inserts(1, 2, at=100))
    trial.apply(0, 100)
    others = Table("others", FIELDS, key=("id",))
    trial.service.put(others, [Change(300, None, (3, "x"))])
    rename = statement(200, effect(EffectKind.RENAME, "orders", to="others"))
    trial.apply(100, 300, rename)
    for start, end, *ddl in ((0, 100), (100, 300, rename)):
        trial.apply(start, end, *ddl, epoch=2)
        assert trial.rows("others") == {(1, "x"): 1, (2, "x"): 1, (3, "x"): 1}
        assert trial.state("orders").dropped


def test_rows_of_a_renamed_table_that_another_server_repeats_ask_for_a_copy(trial: LakeTrial) -> None:
    """They would create the old name again with a part of its rows, and a repeated RENAME would bring them."""
    trial.service.put(ORDERS, inserts(1, 2, at=100))
    trial.apply(0, 100)
    rename = statement(200, effect(EffectKind.RENAME, "orders", to="others"))
    trial.apply(100, 200, rename)
    (refusal,) = trial.apply(100, 200, rename, epoch=2, moved=2).refused
    assert refusal.table == "shop.others"
    (refusal,) = trial.apply(0, 100, epoch=2, moved=2).refused
    assert refusal.table == "shop.orders"
    (refusal,) = trial.apply(100, 200, rename, epoch=2, moved=2, stopped=["shop.orders"]).refused
    assert refusal.table == "shop.others"
    assert trial.rows("others") == {(1, "x"): 1, (2, "x"): 1}

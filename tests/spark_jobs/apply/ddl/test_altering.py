"""spark_jobs.apply.ddl.altering on a real Spark server: columns and old rows after ALTER TABLE."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc_core.schema.ddl import Ddl, EffectKind
from cdc_core.schema.table import TableSchema
from spark_jobs.apply.ddl import altering
from spark_jobs.lake.consent import PROPOSAL
from spark_jobs.lake.ddl import alter_table, listed
from spark_jobs.lake.policies import Changed, TablePolicy
from spark_jobs.lake.state import UNFILLED, UNFILLED_NUMBER
from spark_jobs.session import Sessions
from tests.support import spark_feed
from tests.support.ddl_claims import effect, statement
from tests.support.ddl_text import altered, created
from tests.support.lake_trial import LakeTrial, version
from tests.support.spark_feed import Change, Table, feed

pytestmark = pytest.mark.integration

CREATE = "CREATE TABLE t (id BIGINT PRIMARY KEY, v INT, s VARCHAR(20) COMMENT 'a text') COMMENT 'before'"
FIELDS = pa.schema({"id": pa.int64(), "v": pa.int32(), "s": pa.string()})
ROWS = [Change(200, None, (1, 10, "a")), Change(200, None, (2, None, "b"))]


@pytest.fixture
def trial(sessions: Sessions, tmp_path: Path) -> Iterator[LakeTrial]:
    """A lake with the table and two rows of it, up to position 200."""
    with feed() as service:
        trial = LakeTrial(service, sessions, tmp_path)
        service.put(Table("t", FIELDS, key=("id",)), ROWS)
        create = altered(TableSchema("shop", "", (), (), "", "utf8mb4_0900_ai_ci"), CREATE)
        assert trial.apply(0, 200, statement(100, *create)).applied
        service.changes.clear()
        service.tables.clear()
        yield trial


def alter(at: int, *texts: str) -> list[Ddl]:
    """The statements, 100 bytes apart from `at` on."""
    now, found = created(CREATE), []
    for number, text in enumerate(texts):
        effects = altered(now, text)
        now = effects[-1].schema or now
        found.append(statement(at + 100 * number, *effects, text=text))
    return found


def columns(trial: LakeTrial) -> list[tuple[str, str, str]]:
    return [(column.name, column.type, column.comment) for column in trial.state("t").columns]


@pytest.mark.in_turn
def test_columns_change_in_place(trial: LakeTrial) -> None:
    """Names, order and comments are the source's; later rows of the new definition follow."""
    text = (
        "ALTER TABLE t RENAME COLUMN v TO `w x`, ADD at DATETIME FIRST, MODIFY s TEXT COMMENT 'it''s', COMMENT 'after'"
    )
    (ddl,) = alter(300, text)
    fields = pa.schema({"at": pa.timestamp("us"), "id": pa.int64(), "w x": pa.int32(), "s": pa.string()})
    trial.service.put(Table("t", fields, key=("id",)), [Change(400, None, (None, 3, 30, "c"))])
    for _ in range(2):
        trial.apply(200, 400, ddl)
    assert columns(trial) == [
        ("at", "timestamp_ntz", ""),
        ("id", "bigint", ""),
        ("w x", "int", ""),
        ("s", "string", "it's"),
    ]
    assert trial.rows("t") == {(None, 1, 10, "a"): 1, (None, 2, None, "b"): 1, (None, 3, 30, "c"): 1}
    assert trial.state("t").comment == "after"
    trial.apply(400, 500, statement(500, effect(EffectKind.TRUNCATE, "t")))
    assert trial.rows("t") == {}
    assert [name for name, _, _ in columns(trial)] == ["at", "id", "w x", "s"]


def test_new_columns_and_comments_need_no_spark(trial: LakeTrial) -> None:
    """Nor does a DROP that leaves the rows. A replay changes nothing, and rows with the new columns follow."""
    texts = (
        "ALTER TABLE t ADD at DATETIME(3) COMMENT 'it''s', ADD n DECIMAL(9,2), MODIFY s VARCHAR(20) COMMENT ''",
        "ALTER TABLE t COMMENT 'after'",
    )
    altering, there = alter(300, *texts), trial.sessions
    trial.sessions = Sessions("sc://127.0.0.1:1")
    for _ in range(2):
        batch = trial.apply(200, 400, *altering)
        assert not batch.refused
    assert [one.outcome for one in batch.followed] == ["done before"] * 2
    assert columns(trial) == [
        ("id", "bigint", ""),
        ("v", "int", ""),
        ("s", "string", ""),
        ("at", "timestamp_ntz", "it's"),
        ("n", "decimal(9,2)", ""),
    ]
    state = trial.state("t")
    assert (state.comment, state.applied, state.followed) == ("after", version(400), (1, version(400)))
    fields = pa.schema([*FIELDS, ("at", pa.timestamp("us")), ("n", pa.decimal128(9, 2))])
    trial.service.put(Table("t", fields, key=("id",)), [Change(500, None, (3, 30, "c", None, None))])
    trial.sessions = there
    trial.apply(400, 500)
    assert len(trial.rows("t")) == 3
    trial.sessions = Sessions("sc://127.0.0.1:1")
    trial.apply(500, 600, statement(600, effect(EffectKind.DROP, "t")))
    assert (trial.state("t").dropped, len(trial.rows("t"))) == (True, 3)


@pytest.mark.in_turn
def test_the_first_column_gets_another_name_and_goes(trial: LakeTrial) -> None:
    """No step of a statement counts on a column that the step before it changed."""
    texts = ("ALTER TABLE t MODIFY s VARCHAR(20) FIRST", "ALTER TABLE t RENAME COLUMN s TO w", "ALTER TABLE t DROP w")
    batch = trial.apply(200, 500, *alter(300, *texts))
    assert batch.refused == ()
    assert [name for name, _, _ in columns(trial)] == ["id", "v"]
    assert trial.state("t").applied == version(500)


def test_old_rows_get_what_the_statement_says(trial: LakeTrial) -> None:
    """The default of the ALTER, not the later one; swapped and reused names keep their values; a number gets wider."""
    texts = (
        "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7, MODIFY v BIGINT",
        "ALTER TABLE t ALTER c SET DEFAULT 9",
        "ALTER TABLE t RENAME COLUMN v TO c, RENAME COLUMN c TO v",
        "ALTER TABLE t RENAME COLUMN s TO old_s, ADD s VARCHAR(3)",
    )
    statements = alter(300, *texts)
    trial.apply(200, 600, *statements)
    assert columns(trial) == [
        ("id", "bigint", ""),
        ("c", "bigint", ""),
        ("old_s", "string", "a text"),
        ("v", "int", ""),
        ("s", "string", ""),
    ]
    assert trial.rows("t") == {(1, 10, "a", 7, None): 1, (2, None, "b", 7, None): 1}
    assert trial.state("t").applied == version(600)


def test_a_row_that_the_server_changed_asks_for_a_copy(trial: LakeTrial) -> None:
    """NULL becomes something else under NOT NULL: the table stops, with what it was; rows after it are not applied."""
    (ddl,) = alter(300, "ALTER TABLE t MODIFY v INT NOT NULL")
    batch = trial.apply(200, 300, ddl)
    (refusal,) = batch.refused
    assert "`v` IS NULL" in refusal.error.message
    assert trial.state("t").applied == version(200)


def test_an_alter_that_died_half_way_is_finished(trial: LakeTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run does the changes that are left, and the one after that nothing."""
    (ddl,) = alter(300, "ALTER TABLE t RENAME COLUMN v TO w, DROP COLUMN s, ADD a INT AFTER id")
    left = 2

    def alter_or_die(*args: Any) -> None:
        nonlocal left
        if left == 0:
            raise SystemExit("killed")
        left -= 1
        alter_table(*args)

    monkeypatch.setattr(altering, "alter_table", alter_or_die)
    with pytest.raises(SystemExit):
        trial.apply(200, 300, ddl)
    monkeypatch.undo()
    assert [name for name, _, _ in columns(trial)] == ["id", "w", "s"]
    for _ in range(2):
        trial.apply(200, 300, ddl)
        assert trial.rows("t") == {(1, None, 10): 1, (2, None, None): 1}
    assert trial.state("t").applied == version(300)


def test_alter_with_rename_is_both(trial: LakeTrial) -> None:
    """The rows arrive under the new name, in the new columns; a replay changes nothing."""
    (ddl,) = alter(300, "ALTER TABLE t DROP COLUMN v, RENAME TO u")
    for _ in range(2):
        trial.apply(200, 300, ddl)
        assert trial.rows("u") == {(1, "a"): 1, (2, "b"): 1}
    assert trial.state("t").dropped


def test_a_lenient_table_keeps_dropped_columns(trial: LakeTrial) -> None:
    """With the values of before; later rows have NULL there."""
    (ddl,) = alter(300, "ALTER TABLE t DROP COLUMN v, MODIFY s TEXT FIRST")
    fields = pa.schema({"s": pa.string(), "id": pa.int64()})
    trial.service.put(Table("t", fields, key=("id",)), [Change(400, None, ("c", 3))])
    trial.apply(200, 400, ddl, policy=TablePolicy(changed=Changed.LENIENT))
    assert [name for name, _, _ in columns(trial)] == ["s", "id", "v"]
    assert trial.rows("t") == {("a", 1, 10): 1, ("b", 2, None): 1, ("c", 3, None): 1}


def test_a_name_that_a_lenient_table_kept_begins_again(trial: LakeTrial) -> None:
    """When the source adds a column of that name, old rows have what the statement says."""
    first, second = alter(300, "ALTER TABLE t DROP COLUMN v", "ALTER TABLE t ADD v INT")
    policy = TablePolicy(changed=Changed.LENIENT)
    trial.apply(200, 400, first, second, policy=policy)
    assert [name for name, _, _ in columns(trial)] == ["id", "s", "v"]
    assert trial.rows("t") == {(1, "a", None): 1, (2, "b", None): 1}


def test_values_that_a_dead_run_owed_are_there_before_the_statement(trial: LakeTrial) -> None:
    """Old rows get theirs in a column that was added with rows, then the statement rewrites the rows."""
    noted = {UNFILLED: json.dumps({"v": "CAST('5' AS int)"}), UNFILLED_NUMBER: "3"}
    with trial.sessions.take() as spark:
        spark.sql(f"ALTER TABLE delta.`{trial.lake.path('shop', 't')}` SET TBLPROPERTIES ({listed(noted)})")
    (ddl,) = alter(300, "ALTER TABLE t MODIFY v BIGINT")
    trial.apply(200, 300, ddl)
    assert trial.rows("t") == {(1, 5, "a"): 1, (2, 5, "b"): 1}
    assert not trial.state("t").unfilled


def test_values_that_a_dead_run_owed_go_with_the_rows_to_another_name(trial: LakeTrial) -> None:
    """The statement that gives them has a number that the other name may have had."""

    def owe(table: str, number: int) -> None:
        noted = {UNFILLED: json.dumps({"v": "CAST('5' AS int)"}), UNFILLED_NUMBER: str(number)}
        with trial.sessions.take() as spark:
            spark.sql(f"ALTER TABLE delta.`{trial.lake.path('shop', table)}` SET TBLPROPERTIES ({listed(noted)})")

    other = Table("u", FIELDS, key=("id",))
    trial.service.put(other, [Change(300, None, (7, 7, "u"))])
    trial.apply(200, 300)
    owe("u", 9)
    trial.service.put(other, [Change(400, None, (8, 8, "u"))])
    trial.apply(300, 400)
    assert trial.rows("u") == {(7, 5, "u"): 1, (8, 8, "u"): 1}
    owe("t", 3)
    moved = effect(EffectKind.DROP, "u"), effect(EffectKind.RENAME, "t", to="u")
    trial.service.put(other, [Change(600, None, (9, 9, "u"))])
    trial.apply(400, 600, *(statement(500 + n, one) for n, one in enumerate(moved)))
    assert trial.rows("u") == {(1, 5, "a"): 1, (2, 5, "b"): 1, (9, 9, "u"): 1}
    assert not trial.state("u").unfilled


def test_a_table_that_ignores_changes_keeps_its_columns(trial: LakeTrial) -> None:
    """New columns are left out, dropped ones get NULL; a change of values stops the table."""
    first, second = alter(300, "ALTER TABLE t ADD c INT DEFAULT 7, DROP COLUMN v", "ALTER TABLE t MODIFY s CHAR(3)")
    fields = pa.schema({"id": pa.int64(), "s": pa.string(), "c": pa.int32()})
    trial.service.put(Table("t", fields, key=("id",)), [Change(350, None, (3, "c", 8))])
    policy = TablePolicy(changed=Changed.IGNORE)
    trial.apply(200, 350, first, policy=policy)
    assert trial.rows("t") == {(1, 10, "a"): 1, (2, None, "b"): 1, (3, None, "c"): 1}
    (refusal,) = trial.apply(350, 400, second, policy=policy).refused
    assert "its policy is ignore" in refusal.error.message


@pytest.mark.parametrize(("changed", "reason"), [(Changed.EXCEPTION, "policy is exception"), (Changed.ASK, PROPOSAL)])
def test_a_table_stops_for_a_change_by_policy(trial: LakeTrial, changed: Changed, reason: str) -> None:
    """Before anything is written; the statement is in the reason. What the lake does not show stops nothing."""
    first, second = alter(300, "ALTER TABLE t ALTER v SET DEFAULT 3", "ALTER TABLE t ADD c INT")
    policy = TablePolicy(changed=changed)
    assert not trial.apply(200, 300, first, policy=policy).refused
    replaced = effect(EffectKind.CREATE, "t", schema=created(CREATE))
    (refusal,) = trial.apply(300, 350, statement(350, replaced), policy=policy).refused
    assert reason in refusal.error.message
    (refusal,) = trial.apply(300, 400, second, policy=policy).refused
    assert reason in refusal.error.message
    assert "ALTER TABLE t ADD c INT" in refusal.error.message
    anew = altered(TableSchema("shop", "", (), (), "", "utf8mb4_0900_ai_ci"), "CREATE OR REPLACE TABLE t (id BIGINT)")
    (refusal,) = trial.apply(400, 500, statement(500, *anew), policy=policy).refused
    assert reason in refusal.error.message
    assert [name for name, _, _ in columns(trial)] == ["id", "v", "s"]


def test_a_column_added_as_null_is_null_in_old_rows(trial: LakeTrial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the definition is not known at the statement, and the column has a default when its first row comes."""
    texts = ("ALTER TABLE t ADD n INT", "ALTER TABLE t ALTER n SET DEFAULT 9")
    unknown = [
        statement(at, replace(ddl.effects[0], before=None, schema=None))
        for ddl, at in zip(alter(300, *texts), (300, 400), strict=True)
    ]
    of = spark_feed._column
    monkeypatch.setattr(
        spark_feed,
        "_column",
        lambda one: replace(of(one), default="9", column_type="int") if one.name == "n" else of(one),
    )
    fields = pa.schema([*FIELDS, ("n", pa.int32())])
    trial.service.put(Table("t", fields, key=("id",)), [Change(500, None, (3, 30, "c", 9))])
    for _ in range(2):
        trial.apply(200, 500, *unknown)
    assert trial.rows("t") == {(1, 10, "a", None): 1, (2, None, "b", None): 1, (3, 30, "c", 9): 1}

"""Rows of a quarantine that a person brings into their table or drops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_core.errors import ConfigError
from spark_jobs.expectations.column_tests import Bounded, NotNull
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity
from spark_jobs.expectations.quarantine import after_batch
from spark_jobs.expectations.quarantine_table import QuarantineTable
from spark_jobs.lake.record import COPIED, CopyNote
from spark_jobs.lake.row_rules import Deletes, LastChange, RowRules
from spark_jobs.lake.tables import Lake
from spark_jobs.load.replacement import Target
from spark_jobs.load.requeue import ChosenRows, Requeuer, requeued_rows, statement
from spark_jobs.load.result import LakeClient
from spark_jobs.session import Sessions
from tests.support.applying import apply_batch
from tests.support.local_job import NO_SPARK, run_job_here
from tests.support.spark_feed import Change, Feed, Table, feed

ORDERS = Table("orders", pa.schema({"id": pa.int64(), "n": pa.int32(), "what": pa.string()}), key=("id",))
EXPECTED = Expectations(
    {
        "shop.orders": (
            Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE),
            Expectation("some", NotNull(), ("what",), Severity.QUARANTINE),
        )
    }
)
APP = "sluice:d:1:shop.orders:1"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Feed]:
    run_job_here(monkeypatch)
    with feed() as server:
        rows = [(1, 5, "a"), (2, 50, "b"), (3, 60, None), (4, 7, None)]
        server.put(ORDERS, [Change(at, None, row) for at, row in enumerate(rows, 1)])
        yield server


def filled(service: Feed, lake: Lake) -> Lake:
    """A lake in which one of four rows is in the table, and the others wait."""
    apply_batch(service.claim(1, 0, 4), lake, NO_SPARK, service.url, expectations=EXPECTED)
    return lake


def requeuer(lake: Lake, sessions: Sessions = NO_SPARK) -> Requeuer:
    return Requeuer(Target.fenced(lake, sessions, LakeClient("d", 1, 1, "run"), "shop.orders"), sessions)


def waiting(lake: Lake) -> list[int]:
    return sorted(DeltaTable(lake.quarantine_path("shop", "orders")).to_pyarrow_table()["id"].to_pylist())


def rows(lake: Lake) -> list[dict[str, Any]]:
    return DeltaTable(lake.path("shop", "orders")).to_pyarrow_table().sort_by("id").to_pylist()


def test_rows_are_dropped_by_check_and_key(service: Feed, tmp_path: Path) -> None:
    """The table stays as it is, and what is not chosen waits still."""
    lake = filled(service, Lake(tmp_path))
    done = requeuer(lake).drop(ChosenRows("some", ["id=3"]))
    assert (done.rows, done.left, waiting(lake)) == (1, 2, [2, 4])
    assert requeuer(lake).drop(ChosenRows("some")).rows == 1
    last = requeuer(lake).drop(ChosenRows())
    assert (last.rows, set(last.waiting.values())) == (1, {0})
    assert requeuer(lake).drop(ChosenRows()).rows == 0
    assert [row["id"] for row in rows(lake)] == [1]


def test_rows_from_before_a_copy_are_dropped_with_the_others(service: Feed, tmp_path: Path) -> None:
    """They do not count, but their values are in the newest version: they may be of before a rule that hides them."""
    lake = filled(service, Lake(tmp_path))
    end = service.claims[1].end.version()
    copied = {COPIED: CopyNote(1, end, end).to_json()}
    DeltaTable(lake.path("shop", "orders")).alter.set_table_properties(copied, raise_if_not_exists=False)
    assert waiting(lake) == [2, 3, 4]
    done = requeuer(lake).drop(ChosenRows())
    assert (done.rows, done.left, waiting(lake)) == (0, 0, [])


def test_a_row_that_was_dropped_is_evaluated_at_its_next_change(service: Feed, tmp_path: Path) -> None:
    """A batch goes on from the quarantine as the drop left it."""
    lake = filled(service, Lake(tmp_path))
    requeuer(lake).drop(ChosenRows())
    service.put(ORDERS, [Change(5, (2, 50, "b"), (2, 51, "b")), Change(6, (3, 60, None), (3, 6, "c"))])
    (one,) = apply_batch(service.claim(2, 4, 6), lake, NO_SPARK, service.url, expectations=EXPECTED).applied
    assert (waiting(lake), [row["id"] for row in rows(lake)]) == ([2], [1, 3])
    assert one.expected[0].waiting == 1


@pytest.mark.parametrize(
    ("chosen", "values", "said"),
    [
        (ChosenRows(keys=["id=9"]), {}, "no row waits with the key id=9"),
        (ChosenRows(), {"more": "1"}, "more is not a column of the table"),
        (ChosenRows(), {"id": "1"}, "id is in its primary key"),
        (ChosenRows(), {"n": "many"}, "'many' is not a value of n"),
    ],
)
def test_what_there_cannot_be_is_refused(
    service: Feed, tmp_path: Path, chosen: ChosenRows, values: dict[str, str], said: str
) -> None:
    """Before anything is written."""
    lake = filled(service, Lake(tmp_path))
    with pytest.raises(ConfigError) as caught:
        requeuer(lake).requeue(chosen, values)
    assert said in caught.value.message
    assert waiting(lake) == [2, 3, 4]


def test_a_table_without_a_quarantine_is_named(service: Feed, tmp_path: Path) -> None:
    """As one in which no row waits."""
    lake = Lake(tmp_path)
    apply_batch(service.claim(1, 0, 4), lake, NO_SPARK, service.url)
    with pytest.raises(ConfigError, match="shop.orders has no quarantine"):  # noqa: RUF043
        requeuer(lake).drop(ChosenRows())


def test_rows_come_with_their_last_change_and_the_given_values(service: Feed, tmp_path: Path) -> None:
    """In a table with columns of Sluice's too; a column that came later must be given, as the source may have filled
    it."""
    lake = filled(service, Lake(tmp_path, rules=RowRules(deletes=Deletes.SOFT, columns=tuple(LastChange))))
    state = lake.state(lake.path("shop", "orders"), APP)
    assert state is not None
    whole = QuarantineTable(lake, "d", "shop.orders").read(state, 1, APP).rows.sort_by("id")
    some, new = whole.drop_columns(["what"]), whole.slice(0, 0)
    for rows in (some, after_batch(some, None, new, ["id"])):
        with pytest.raises(ConfigError, match="from before the column what"):
            requeued_rows(rows, state, {"n": "8"})
        assert requeued_rows(rows, state, {"what": "x"})["what"].to_pylist() == ["x"] * 3
    first = requeued_rows(some, state, {"n": "NULL", "what": "NULL"}).to_pylist()[0]
    assert (first["id"], first["n"], first["what"], first["_sluice_deleted"]) == (2, None, None, False)
    assert (first["_sluice_op"], first["_sluice_position"]) == ("insert", "1:2")
    assert requeued_rows(whole, state, {"n": "8"})["n"].to_pylist() == [8, 8, 8]
    assert statement("/p", state).startswith(
        "MERGE INTO delta.`/p` AS t USING sluice_requeued AS s ON t.`id` = CAST(s."
    )


@pytest.mark.integration
def test_rows_are_in_the_table_once(
    service: Feed, sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the run dies between the commit of the table and that of the quarantine, and is run again."""
    lake = filled(service, Lake(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(QuarantineTable, "commit", None)
        with pytest.raises(TypeError):
            requeuer(lake, sessions).requeue(ChosenRows("small"), {})
    assert waiting(lake) == [2, 3, 4]
    done = requeuer(lake, sessions).requeue(ChosenRows("small"), {"n": "9"})
    assert (done.rows, done.left, waiting(lake)) == (2, 1, [4])
    assert [(row["id"], row["n"], row["what"]) for row in rows(lake)] == [(1, 5, "a"), (2, 9, "b"), (3, 9, None)]
    service.put(ORDERS, [Change(50, (2, 50, "b"), (2, 6, "b")), Change(60, (4, 7, None), None)])
    (one,) = apply_batch(service.claim(2, 4, 60), lake, sessions, service.url, expectations=EXPECTED).applied
    assert all(found.passed for found in one.expected)
    assert [(row["id"], row["n"]) for row in rows(lake)] == [(1, 5), (2, 6), (3, 9)]

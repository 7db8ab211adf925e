"""A lake in an S3 server on the loopback address, written by delta-rs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.client.changes import RowsDoor
from cdc_core.errors import LakeError
from spark_jobs.changes.net import GONE
from spark_jobs.lake import probe as probing
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.state import DESTINATION, FENCE, LOG, TABLE, DeltaCommit
from spark_jobs.lake.tables import Lake
from spark_jobs.maintain.as_of import committed_at
from spark_jobs.maintain.shape import shape
from spark_jobs.write import small_table
from spark_jobs.write.order import Claimed, Form, Order
from spark_jobs.write.order_changes import Unfit

pytestmark = pytest.mark.integration
_APPENDS = """
import sys, pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake
for number in range(10):
    noted = CommitProperties(app_transactions=[Transaction(sys.argv[2], number)])
    row = pa.table({"who": [sys.argv[2]], "n": [number]})
    write_deltalake(sys.argv[1], row, mode="append", commit_properties=noted)
"""


@pytest.fixture
def lake(object_store: str, tmp_path: Path) -> Lake:
    return Lake(f"{object_store}/{tmp_path.name}")


def made(lake: Lake, table: str, **properties: str) -> str:
    path = lake.path("shop", table)
    write_deltalake(path, pa.table({"id": [1]}))
    owner = {DESTINATION: "d", TABLE: f"shop.{table}"} | properties
    lake.open(path).alter.set_table_properties(owner, raise_if_not_exists=False)
    return path


def test_a_small_table_is_written_again_and_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one process, which keeps the table, also when another one has committed or taken it over meanwhile."""
    path = made(lake, "t", **{FENCE: "mine"})
    first = Order(
        path, "app", 1, "{}", "mine", Form.KEYED, ("id",), ("id",), Claimed(RowsDoor("grpc://127.0.0.1:1"), ())
    )
    for order, ids, gone in (
        (first, [1, 2], [True, False]),
        (replace(first, version=2), [2, 3, 4], [True, False, False]),
    ):
        changes = pa.table({"id": ids, GONE: gone})
        monkeypatch.setattr(small_table, "changes_of", lambda _, changes=changes: changes)
        outcome = small_table.written(order)
        assert (outcome.inserted, outcome.deleted) == (gone.count(False), 1)
        lake.open(path).alter.set_table_properties({"a.b": str(order.version)}, raise_if_not_exists=False)
    assert sorted(lake.open(path).to_pyarrow_table()["id"].to_pylist()) == [3, 4]
    lake.open(path).alter.set_table_properties({FENCE: "another's"}, raise_if_not_exists=False)
    with pytest.raises(Unfit):
        small_table.written(replace(first, version=3))


def test_what_a_lake_has_is_found(lake: Lake) -> None:
    """Folders, tables, logs, states, times and shapes are those of a lake on a disk."""
    assert (lake.live_tables("d"), lake.logs("d"), lake.has("shop", "t")) == ([], [], False)
    assert lake.state(lake.path("shop", "t"), "app") is None
    path = made(lake, "t")
    made(lake, "t__log", **{LOG: "true"})
    assert (lake.live_tables("d"), lake.logs("d"), lake.has("shop", "t")) == (["shop.t"], ["shop.t__log"], True)
    state = lake.state(path, "app")
    assert state is not None
    assert (state.version, state.properties[TABLE], lake.is_small(path), shape(lake, path).files) == (
        1,
        "shop.t",
        True,
        1,
    )
    assert [type(one) for one in lake.commits(path)] == [DeltaCommit] * 2
    assert committed_at(lake, path, 0) is not None
    assert not lake.ignores_case()


def test_notes_and_writer(lake: Lake) -> None:
    """Notes are kept by name; the first writer keeps every other out, and the probe leaves nothing behind."""
    notes = Noted(lake, lake.parking_path("d", 1))
    notes.write({"a.x": "1", "a.y": "2"})
    notes.write({"a.x": ""})
    assert notes.read("a.") == {"y": "2"}
    ledger = Ledger(lake, "d", 1)
    ledger.check_writer(1, None, "mine")
    ledger.check_writer(1, None, "mine")
    with pytest.raises(LakeError, match="another service writes this lake"):
        ledger.check_writer(1, None, "other")
    assert lake.folders_in(f"{lake.root}/_sluice/probe") == []


@pytest.mark.in_turn
def test_two_processes_lose_no_commit(lake: Lake) -> None:
    """Each append of two writers that race is a version of its own, and there once."""
    path = made(lake, "t")
    write_deltalake(
        path,
        pa.table({"who": pa.array([], pa.string()), "n": pa.array([], pa.int64())}),
        mode="overwrite",
        schema_mode="overwrite",
    )
    before = lake.open(path).version()
    command = [sys.executable, "-c", _APPENDS, path]
    writers = [subprocess.Popen([*command, who], env=dict(os.environ)) for who in ("a", "b")]
    assert [one.wait(120) for one in writers] == [0, 0]
    table = lake.open(path)
    found = pa.table(table.to_pyarrow_table()).to_pylist()
    assert Counter((one["who"], one["n"]) for one in found) == Counter((who, n) for who in "ab" for n in range(10))
    assert (table.version() - before, lake.applied(path, ["a", "b"])) == (20, [9, 9])


def test_a_store_that_replaces_commits_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the lake has a writer: nothing is noted."""

    class Replacing(DeltaTable):
        """As if its PUTs were not conditional: a commit that is in the way goes."""

        @property
        def alter(self) -> object:
            self.update_incremental()
            return super().alter

    monkeypatch.setattr(probing.Lake, "open", lambda _, path: Replacing(path))
    with pytest.raises(LakeError, match="replace another one"):
        probing.probe(lake)


def test_a_configuration_that_loses_commits_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first batch, before anything is written."""
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    with pytest.raises(LakeError, match="AWS_S3_LOCKING_PROVIDER"):
        Ledger(lake, "d", 1).check_writer(1, None, "mine")
    assert lake.folders_in(lake.root) == []

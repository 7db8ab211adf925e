"""What a materialization says of its rows, on a real Delta table, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from cdc_core.contract.claim import Claim
from cdc_core.position import EntryPosition
from orchestration.assets import explained
from orchestration.assets.explained import Budget, Explanation
from orchestration.assets.reports import Reports, together
from spark_jobs.lake.state import DESTINATION, PRIMARY_KEY, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.client_tables import ClientTables
from tests.support.doubles import Clock

NAMED = {DESTINATION: "d", TABLE: "shop.t", PRIMARY_KEY: '["id"]'}


def at(offset: int) -> EntryPosition:
    return EntryPosition("bin.000001", offset)


def claim(number: int, epoch: int = 0) -> Claim:
    """The batch from `100 * number` on."""
    return Claim("d", 1, number, at(100 * number), at(100 * number + 100), (), 1, 1, 1, (), epoch, "me", 0.0)


def noted(number: int) -> CommitProperties:
    """The commit of that batch."""
    note = {"destination": "d", "client_id": 1, "table": "shop.t", "epoch": 0, "counts": {}, "after": None}
    note |= {"low": claim(number).start.version(), "version": claim(number).end.version()}
    return CommitProperties(custom_metadata={"userMetadata": json.dumps(note)})


@pytest.fixture
def tables(tmp_path: Path) -> ClientTables:
    """A table to which batch 1 brought five rows, and batch 2 an update and a row."""
    lake = Lake(tmp_path)
    path = lake.path("shop", "t")
    first = pa.table({"id": [1, 2, 3, 4, 5], "name": ["a"] * 5})
    write_deltalake(path, first, commit_properties=noted(1))
    DeltaTable(path).alter.set_table_properties(NAMED, raise_if_not_exists=False)
    rows = pa.table({"id": [2, 6], "name": ["b" * 50, None]})
    merge = DeltaTable(path).merge(rows, "s.id = t.id", source_alias="s", target_alias="t", commit_properties=noted(2))
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    return ClientTables(lake, "d", 1)


def explanation(tables: ClientTables, number: int, rows: int = 2, budget: Budget | None = None) -> Explanation:
    return Explanation.of(claim(number), tables, "shop.t", rows, budget or Budget())


class TestExplanation:
    def test_rows_and_command(self, tables: ClientTables) -> None:
        """The rows before and after, with long values cut, and the command for the rest."""
        assert explanation(tables, 2).text().splitlines() == [
            "update id=2: name: a -> bbbbbbbbbbbbbbbbb...",
            "insert id=6: ",
            "sluice explain d shop.t --batch 2",
        ]

    def test_bounded(self, tables: ClientTables) -> None:
        """Three rows are shown; none of many, nor in a run that has shown enough."""
        lines = explanation(tables, 1, rows=5).text().splitlines()
        assert [line[:12] for line in lines] == ["insert id=1:", "insert id=2:", "insert id=3:", "...", "sluice expla"]
        command = "sluice explain d shop.t --batch 1"
        assert explanation(tables, 1, rows=5000).text() == command
        budget = Budget(1)
        assert explanation(tables, 1, budget=budget).text() != command
        assert explanation(tables, 1, budget=budget).text() == command

    def test_several_batches(self, tables: ClientTables) -> None:
        """Batches of one materialization are explained as one, those of an epoch that ended are not."""
        first, second = ({"batch_id": number, "explain": explanation(tables, number)} for number in (1, 2))
        both = together(first, second)["explain"]
        assert both.text().splitlines()[-1] == "sluice explain d shop.t --batch 1..2"
        assert "insert id=2: name=bbbbbbbbbbbbbbbbb..." in both.text()
        later = Explanation.of(claim(3, epoch=1), tables, "shop.t", 1, Budget())
        assert both.with_later(later) is later

    def test_key_that_was_renamed_since(self, tables: ClientTables) -> None:
        """A version is shown by the key that it had."""
        path = tables.path("shop.t")
        DeltaTable(path).alter.set_table_properties({PRIMARY_KEY: '["number"]'}, raise_if_not_exists=False)
        assert explanation(tables, 2).text().splitlines()[0].startswith("update id=2: name: a -> b")

    def test_large_files(self, tables: ClientTables, monkeypatch: pytest.MonkeyPatch) -> None:
        """Files that are large are not read for it, even if few of their rows were changed."""
        sizes = [file.stat().st_size for file in Path(tables.path("shop.t")).glob("*.parquet")]
        monkeypatch.setattr(explained, "_MOST_BYTES", sum(sizes))
        assert explanation(tables, 2).text().startswith("update")
        monkeypatch.setattr(explained, "_MOST_BYTES", sum(sizes) - 1)
        assert explanation(tables, 2).text() == "sluice explain d shop.t --batch 2"

    def test_unreadable_table(self, tables: ClientTables) -> None:
        """An error of the lake leaves the command."""
        nowhere = replace(tables, lake=Lake("/nowhere"))
        assert explanation(nowhere, 2).text() == "sluice explain d shop.t --batch 2"

    def test_any_error(self, tables: ClientTables, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever goes wrong leaves the command: the run that has done the batch does not fail by it."""
        monkeypatch.setattr(explained, "past_images", lambda *_: 1 / 0)
        assert explanation(tables, 2).text() == "sluice explain d shop.t --batch 2"

    def test_in_materialization(self, tables: ClientTables) -> None:
        """The text is made when the materialization is written."""
        written = list[dg.AssetMaterialization]()
        reports = Reports(written.append, seconds=60, clock=Clock())
        reports.add(dg.AssetKey("a"), {"batch_id": 2, "explain": explanation(tables, 2)})
        reports.write_all()
        assert str(written[0].metadata["explain"].value).startswith("update id=2")

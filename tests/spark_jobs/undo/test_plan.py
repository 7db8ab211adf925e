"""Whether a table can be corrected, and the rows that it has now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from cdc_core.schema.names import split_name
from spark_jobs.changes.columns import INSERT, OP
from spark_jobs.lake.record import BEGUN, COPIED, DROPPED, FOLLOWED, CopyNote
from spark_jobs.lake.state import PRIMARY_KEY, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.undo import plan
from spark_jobs.undo.decision import RowPool, net_changes
from spark_jobs.undo.plan import CorrectableTable, PastPart, rows_now, why_not

PART = PastPart(1, 100, 200, "log", "", lambda: iter(()))
STATE = TableState(5, 200, (), {PRIMARY_KEY: '["id"]'})


def known(**properties: str) -> CorrectableTable:
    return CorrectableTable("shop.t", replace(STATE, properties={**STATE.properties, **properties}), (1, 200))


class TestWhyNot:
    @pytest.mark.parametrize(
        "table",
        [
            known(),
            known(**{FOLLOWED: "1:100"}),
            known(**{FOLLOWED: "0:900", BEGUN: "0:900", COPIED: CopyNote(1, 50, 90).to_json()}),
            replace(known(), place=(2, 10)),
        ],
    )
    def test_nothing(self, table: CorrectableTable) -> None:
        """What came before the part is no reason, nor is a later epoch."""
        assert why_not(table, PART) == ""

    @pytest.mark.parametrize(
        ("table", "words"),
        [
            (CorrectableTable("shop.t", None, None), "no such table"),
            (known(**{DROPPED: "bin.1:9"}), "dropped"),
            (known(**{PRIMARY_KEY: "[]"}), "no primary key"),
            (replace(known(), place=(1, 199)), "not got all"),
            (replace(known(), place=(0, 900)), "not got all"),
            (replace(known(), place=None), "not got all"),
            (known(**{FOLLOWED: "1:101"}), "followed a statement"),
            (known(**{FOLLOWED: "2:5"}), "followed a statement"),
            (known(**{COPIED: CopyNote(1, 90, 101).to_json()}), "reloaded since"),
            (known(**{COPIED: CopyNote(2, 5, 5).to_json()}), "reloaded since"),
            (known(**{BEGUN: "1:150"}), "reloaded since"),
        ],
    )
    def test_reasons(self, table: CorrectableTable, words: str) -> None:
        """Each reason in its words."""
        assert words in why_not(table, PART)


class TestRowsNow:
    @pytest.mark.parametrize("listed", [5_000, 1])
    @pytest.mark.parametrize("key", [["it's", "b", 'c"'], [3, 5, -1], [1.5, 2.5, 0.0]])
    def test_rows_of_keys(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: list[Any], listed: int) -> None:
        """Rows of the keys, each once for each that the table has, whatever type the key has and however many."""
        monkeypatch.setattr(plan, "_LISTED", listed)
        tables = ClientTables(Lake(tmp_path), "d", 1)
        there = pa.table({"k": [key[0], key[1], key[1], *key[2:]], "v": [1, 2, 3, 4]})
        write_deltalake(tables.lake.path(*split_name("shop.t")), there)
        pool = RowPool(there.schema, ["k"])
        net = net_changes(pool, [pa.RecordBatch.from_pydict({"k": key[:2], "v": [0, 0], OP: [INSERT, INSERT]})])
        found = rows_now(tables, "shop.t", replace(STATE, version=0), pool, net)
        rows = [row for each in found.values() for row in each]
        assert sorted(pool.table(rows, ["v"]).column("v").to_pylist()) == [1, 2, 3]
        assert sorted(map(len, found.values())) == [1, 2]

"""Tables with masks compared: the source's rows are read and hashed here, because no statement may have the salt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.rows.columns.masks import masked
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.snapshot.source import Source
from spark_jobs.verify import candidates as candidates_room
from spark_jobs.verify.candidates import SourceSide, candidates
from spark_jobs.verify.counts import LakeSide, counted

HASH = Mask(MaskKind.SHA256, salt=Salt("SALT").filled(b"pepper"))
PEOPLE = TableSchema("shop", "people", (Column("id", 3, 0), Column("email", 15, 80, charset=255)), ("id",))
MASKED = TableRule(masks=(("email", HASH),)).view(PEOPLE)
MASKED_KEY = TableRule(masks=(("id", HASH),)).view(PEOPLE)
MANY = 2_000
NOWHERE: Any = None


def batch(schema: TableSchema, *changed: tuple[int, str]) -> pa.RecordBatch:
    """The rows as they are read, some with another email."""
    emails = {n: f"{n}@example.com" for n in range(MANY)} | dict(changed)
    values = [pa.array(list(emails), pa.int32()), pa.array(list(emails.values()))]
    columns = [masked(column, one) for column, one in zip(schema.columns, values, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(arrow_fields(schema)))


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> dict[str, pa.RecordBatch]:
    """The source's rows; no statement is executed."""
    there: dict[str, pa.RecordBatch] = {}

    def rows(*_: Any) -> Iterator[pa.RecordBatch]:
        yield there["rows"].slice(0, 700)
        yield there["rows"].slice(700)

    doubles = {
        "read_rows": rows,
        "read_chunks": rows,
        "rows_about": lambda *_: MANY,
        "_ranges": lambda *_: [""],
        "connect": lambda _: nullcontext(),
        "closing": lambda one: one,
    }
    for name, double in doubles.items():
        monkeypatch.setattr(candidates_room, name, double)
    return there


def lake(path: Path, schema: TableSchema, *changed: tuple[int, str]) -> DeltaTable:
    write_deltalake(path, pa.Table.from_batches([batch(schema, *changed)]))
    return DeltaTable(path)


def test_keys_that_differ_are_found(source: dict[str, pa.RecordBatch], tmp_path: Path) -> None:
    """On either side."""
    there = lake(tmp_path, MASKED, (5, "other"))
    source["rows"] = batch(MASKED, (1999, "another"))

    found = candidates(Source("x", 1, "u", "p"), MASKED, there, "fail")

    assert (found.source_rows, found.lake_rows) == (MANY, MANY)
    assert found.keys == (b"1999", b"5")


def test_equal_rows_have_no_candidates(source: dict[str, pa.RecordBatch], tmp_path: Path) -> None:
    """The masks are the same on both sides."""
    source["rows"] = batch(MASKED)
    assert candidates(Source("x", 1, "u", "p"), MASKED, lake(tmp_path, MASKED), "fail").keys == ()


def test_rows_of_a_masked_key_are_counted(source: dict[str, pa.RecordBatch], tmp_path: Path) -> None:
    """No condition finds them by their keys."""
    there = lake(tmp_path, MASKED_KEY, (5, "other"), (6, "other"))
    source["rows"] = batch(MASKED_KEY, (7, "another"))
    side = SourceSide(NOWHERE, MASKED_KEY, "fail")

    assert candidates(Source("x", 1, "u", "p"), MASKED_KEY, there, "fail").keys is None
    found = counted(side, LakeSide(there, arrow_fields(MASKED_KEY), ("id",)), 8)

    assert (found.missing, found.extra, found.different) == (0, 0, 3)
    assert (found.source_rows, found.lake_rows) == (MANY, MANY)

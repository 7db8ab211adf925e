"""Rows that wait in a quarantine are told apart from lost ones, without a source."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from cdc_core.position import EntryPosition
from spark_jobs.expectations.column_tests import Bounded
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity
from spark_jobs.lake.tables import Lake
from spark_jobs.verify.audit import differing
from spark_jobs.verify.on_purpose import OnPurpose
from spark_jobs.verify.quarantined import QuarantinedRows, waiting_rows
from spark_jobs.verify.row_text import lake_text
from spark_jobs.verify.standing import Row
from spark_jobs.verify.verified import Comparison, Verified
from tests.support.applying import apply_batch
from tests.support.local_job import NO_SPARK, run_job_here
from tests.support.spark_feed import Change, Table, feed

ORDERS = Table("orders", pa.schema({"id": pa.int64(), "what": pa.string(), "n": pa.int32()}), key=("what", "id"))
EXPECTED = Expectations({"shop.orders": (Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE),)})


def place(lake: Lake, table: Table) -> Any:
    """A table as a comparison has it."""
    client = SimpleNamespace(destination="d", client_id=1, client_status=lambda: SimpleNamespace(epoch=1))
    path = lake.path("shop", table.name)
    return SimpleNamespace(connector=client, lake=lake, schema=table.schema, path=path, purposes=OnPurpose)


def test_keys_that_wait_have_the_text_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all columns of the key, in its order; none of a table without a key or a quarantine. Where the definition has
    other columns by now, the rows are not compared."""
    run_job_here(monkeypatch)
    lake = Lake(tmp_path)
    with feed() as service:
        service.put(ORDERS, [Change(1, None, (1, "a", 5)), Change(2, None, (2, "b,c", 50))])
        apply_batch(service.claim(1, 0, 2), lake, NO_SPARK, service.url, expectations=EXPECTED)
    assert waiting_rows(place(lake, ORDERS)).texts == {b"3:b,c,2": b"2,3:b,c,50"}
    wider = Table("orders", ORDERS.fields.append(pa.field("more", pa.int32())), key=ORDERS.key)
    assert waiting_rows(place(lake, wider)).texts == {b"3:b,c,2": None}
    assert waiting_rows(place(lake, Table("users", ORDERS.fields, key=("id",)))) == QuarantinedRows()
    assert waiting_rows(place(lake, Table("orders", ORDERS.fields))) == QuarantinedRows()


def test_a_row_that_waits_explains_a_difference_from_itself_alone() -> None:
    """If the source has another row, or none, a change is lost; so it is if the lake has a key twice."""
    waits = QuarantinedRows({b"1": b"1,50", b"2": None})
    assert waits.explains(b"1", b"1,50", [])
    assert waits.explains(b"1", b"1,50", [b"1,5"])
    assert waits.explains(b"2", b"2,60", [])
    assert not waits.explains(b"1", b"1,60", [])
    assert not waits.explains(b"1", None, [b"1,5"])
    assert not waits.explains(b"1", b"1,50", [b"1,5", b"1,5"])
    assert not waits.explains(b"3", b"3,50", [])


def test_a_change_that_is_lost_is_reported_though_its_key_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One key waits as it should; of another one that waits, the source has a later row."""
    run_job_here(monkeypatch)
    lake = Lake(tmp_path)
    with feed() as service:
        service.put(
            ORDERS, [Change(at, None, row) for at, row in enumerate([(1, "a", 5), (2, "b", 50), (3, "c", 60)], 1)]
        )
        apply_batch(service.claim(1, 0, 3), lake, NO_SPARK, service.url, expectations=EXPECTED)
    schema, source = ORDERS.fields, [(1, "a", 5), (2, "b", 50), (3, "c", 6)]
    columns = [pa.array([row[nth] for row in source], field.type) for nth, field in enumerate(schema)]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    keys, texts = (lake_text(batch, names).to_pylist() for names in (["what", "id"], schema.names))
    rows = {key: Row(text, batch.slice(nth, 1)) for nth, (key, text) in enumerate(zip(keys, texts, strict=True))}
    state = lake.state(lake.path("shop", "orders"), "sluice:d:1:shop.orders:1")
    standing: Any = SimpleNamespace(rows=rows, state=state)
    found = differing(place(lake, ORDERS), standing, keys)
    assert (found.missing, found.extra, found.different, found.quarantined) == (1, 0, 0, 1)
    assert [one.to_pylist() for one in found.right] == [[{"id": 3, "what": "c", "n": 6}]]


def test_rows_that_wait_are_no_differences() -> None:
    """They are counted by themselves, where there are some."""
    at = EntryPosition("bin.000001", 4)
    found = Verified("shop.orders", Comparison(7, 5, 0, 0, 0, quarantined=2), at)
    assert (found.differences, found.to_dict()["quarantined"]) == (0, 2)
    assert "quarantined" not in Verified("shop.orders", Comparison(7, 7, 0, 0, 0), at).to_dict()

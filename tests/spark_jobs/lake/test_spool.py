"""Record batches for delta-rs are read before it asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.lake.spool import spooled

SCHEMA = pa.schema({"id": pa.int64(), "of": pa.dictionary(pa.int32(), pa.string())})
BESIDE_A_COMMIT = """
import sys, threading, time
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from spark_jobs.lake.spool import spooled

schema, begun = pa.schema({"id": pa.int64()}), threading.Event()

def batches():
    for number in range(40):
        begun.set()
        time.sleep(0.01)
        yield pa.RecordBatch.from_pydict({"id": [number] * 100}, schema=schema)

def write():
    with spooled(schema, batches(), int(sys.argv[2])) as rows:
        write_deltalake(f"{sys.argv[1]}/written", rows, mode="append")

DeltaTable.create(f"{sys.argv[1]}/altered", schema)
writer = threading.Thread(target=write)
writer.start()
begun.wait()
while writer.is_alive():
    DeltaTable(f"{sys.argv[1]}/altered").alter.set_table_properties({"a.b": "c"}, raise_if_not_exists=False)
"""


def batches() -> Iterator[pa.RecordBatch]:
    for number in range(5):
        yield pa.RecordBatch.from_arrays(
            [pa.array([number] * 100), pa.array([f"{number}"] * 100).dictionary_encode()], schema=SCHEMA
        )


@pytest.mark.parametrize("most", [0, 2000, 1 << 20])
def test_all_of_them_come(tmp_path: Path, most: int) -> None:
    """From memory and from a file; a dictionary may differ from the one before."""
    with spooled(SCHEMA, batches(), most) as rows:
        write_deltalake(tmp_path, rows)
    found = DeltaTable(tmp_path).to_pyarrow_table().sort_by("id")
    assert found["id"].to_pylist() == [number for number in range(5) for _ in range(100)]
    assert found["of"].to_pylist() == [f"{number}" for number in range(5) for _ in range(100)]


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_an_error_of_theirs_is_raised(most: int) -> None:
    """As it is, and not as a text of delta-rs."""

    def fails() -> Iterator[pa.RecordBatch]:
        yield from batches()
        raise KeyError("the service is away")

    with pytest.raises(KeyError), spooled(SCHEMA, fails(), most):
        pytest.fail("it has not all of them")


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_a_writer_does_not_keep_another_commit_waiting(tmp_path: Path, most: int) -> None:
    """On one core, where delta-rs has one thread: a change of properties holds Python's lock while it waits for it."""
    env = {**os.environ, "TOKIO_WORKER_THREADS": "1"}
    command = [sys.executable, "-c", BESIDE_A_COMMIT, str(tmp_path), str(most)]
    subprocess.run(command, env=env, check=True, timeout=60)
    assert DeltaTable(tmp_path / "written").to_pyarrow_table().num_rows == 4000

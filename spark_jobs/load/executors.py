"""Lets Spark's executors read and write shares of a table: one task a share, which returns a description of each file.

Rows do not pass through Spark: a task turns packets into Arrow and Arrow into Parquet itself. The shares travel pickled
in the tasks' function, so no plan, page or log shows the account's password. A task that Spark runs twice writes other
files; the files of one attempt are returned. The executors need this package, and access to the source and the lake.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from cdc_core.errors import LakeError, SluiceError, error_from
from spark_jobs.lake.failures import lake_errors
from spark_jobs.load.files import StagedFile
from spark_jobs.load.groups import CopyTask
from spark_jobs.session import Sessions

_TYPES = {"path": pa.string(), "size": pa.int64(), "rows": pa.int64(), "stats": pa.string(), "error": pa.string()}
_DESCRIPTION = pa.schema(list(_TYPES.items()))
_DDL = "path string, size bigint, rows bigint, stats string, error string"
_REACH = "Name a lake that the driver and every executor can reach and write, or read on the driver (--read-on driver)."
Batches = Iterator[pa.RecordBatch]


def on_executors(sessions: Sessions, shares: Sequence[CopyTask]) -> list[StagedFile]:
    """Writes each share by a task, and returns the files.

    Raises what `CopyTask.written` raises, LakeError also if Spark fails or a file cannot be seen from here.
    """
    where = shares[0]
    with sessions.take() as spark, lake_errors(where.path):
        numbers = spark.range(0, len(shares), 1, len(shares))
        found = numbers.mapInArrow(_task(shares), _DDL).toArrow().to_pylist()
    for one in found:
        if one["error"] is not None:
            raise _error(one["error"])
    files = [StagedFile(one["path"], one["size"], one["rows"], one["stats"]) for one in found]
    _check_seen(files, where)
    return files


def is_cluster(sessions: Sessions) -> bool:
    """Whether Spark has executors on other machines than its server's. Raises LakeError when it does not answer."""
    with sessions.take() as spark, lake_errors(sessions.remote.partition("/;")[0]):
        master = spark.conf.get("spark.master", "")
    return master != "local" and not (master or "").startswith("local[")


def _task(shares: Sequence[CopyTask]) -> Callable[[Batches], Batches]:
    """Returns the function that a task applies to the numbers of its shares."""

    def written(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist(_described(shares[number]), _DESCRIPTION)

    return written


def _described(share: CopyTask) -> list[dict[str, Any]]:
    """Returns a row for each file of a share, or one row with its error: a raised error would make Spark try again."""
    try:
        return [asdict(one) for one in share.written()]
    except SluiceError as error:
        return [{"error": json.dumps(error.as_dict())}]


def _error(text: str) -> SluiceError:
    error = error_from(json.loads(text))
    return LakeError(error.message, place=error.place, hint=_REACH) if isinstance(error, LakeError) else error


def _check_seen(files: Sequence[StagedFile], share: CopyTask) -> None:
    """Raises LakeError for a file that is not here as it was written: then the executors have another disk."""
    folder = PyFileSystem(DeltaStorageHandler(share.path, dict(share.storage) or None))
    for file, there in zip(files, folder.get_file_info([one.path for one in files]), strict=True):
        if there.size != file.size:
            raise LakeError(
                f"executors wrote {file.path}, which this process cannot see", place=share.path, hint=_REACH
            )

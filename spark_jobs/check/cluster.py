"""Asks a cluster what it lacks: by a small job on its executors, a small table that Spark writes, and one call each to
the service and the source. What is written is removed, except the empty objects by which S3A marks folders."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.changes import RowsDoor
from cdc_core.errors import LakeError
from spark_jobs.check import on_executor
from spark_jobs.check.findings import Finding, Looked, findings
from spark_jobs.check.on_executor import DRIVER, Asked, Facts, folder_of, look, look_all, write
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.sql import quote
from spark_jobs.lake.tables import Lake
from spark_jobs.session import is_gone, slots
from spark_jobs.stores import local_folder

cloudpickle.register_pickle_by_value(on_executor)  # type: ignore[no-untyped-call]  # an executor may lack Sluice
PACKAGES = ("deltalake", "pyarrow", "numpy", "numba", "pymysql", "pydantic", "structlog")
_MODULE = "spark_jobs.write.small_table"
_PYTHON = (
    "Executors need the driver's minor version of Python with pyspark, pyarrow and pandas, under the path of "
    "PYSPARK_PYTHON (docs/cluster.md); the executors' logs have the whole error."
)


def checked(spark: SparkSession, lake: Lake, door: RowsDoor | None, source: str = "") -> Iterator[Finding]:
    """Yields the findings, of Spark itself first. `source` is MySQL's `host:port`, "" if it is unknown.

    Raises LakeError if this process cannot write the lake, and what Spark raises if its server is down.
    """
    with _folder(lake) as folder:
        count = 2 * slots(spark)  # tasks, so that every executor gets one
        yield _spark(spark, lake, folder, count)
        asked = Asked(PACKAGES, _MODULE, folder, uuid.uuid4().hex, lake.storage, source=source)
        if door is not None:
            asked = replace(asked, door=door.url, token=door.token, ca=door.ca)
        write(asked, DRIVER)
        try:
            executors = _asked(spark, asked, count)
        except PySparkException as error:
            if is_gone(error):
                raise
            yield Finding("Python", ("executors",), first_line(error), _PYTHON)
            return
        seen = {one.base_name for one in folder_of(asked).get_file_info(FileSelector("", recursive=True))}
        yield from findings(asked, look(asked), executors, seen)


@contextmanager
def _folder(lake: Lake) -> Iterator[str]:
    """Yields a folder in the lake, which is removed after the block."""
    lake.check_writable()
    folder = f"{lake.root}/_sluice/check/{uuid.uuid4().hex}"
    try:
        if local := local_folder(folder):
            local.mkdir(parents=True)
        yield folder
    except (DeltaError, OSError) as error:
        hint = "Give this process the lake's path, or the store's credentials and endpoint in its environment."
        raise LakeError(
            f"the lake cannot be written from here: {first_line(error)}", place=folder, hint=hint
        ) from error
    finally:
        with suppress(DeltaError, OSError):
            DeltaStorageHandler(folder, lake.storage or None).delete_dir("")
            if local := local_folder(folder):
                shutil.rmtree(local)  # which is empty now


def _spark(spark: SparkSession, lake: Lake, folder: str, rows: int) -> Finding:
    """Checks that Spark's executors write a Delta table, of so many rows, into the lake that this process sees."""
    where, path = (urlsplit(lake.root).scheme or "path",), f"{folder}/delta"
    try:
        spark.range(0, rows, 1, rows).write.format("delta").save(path)
        found = spark.sql(f"SELECT count(*) AS rows FROM delta.{quote(path)}").collect()[0].rows  # noqa: S608
    except PySparkException as error:
        if is_gone(error):
            raise
        hint = "Start Spark with Delta's jars and those of the lake's store, and its credentials (docs/cluster.md)."
        return Finding("Spark", where, f"cannot write the lake: {first_line(error)}", hint)
    there = _rows(lake, path)
    if found == there == rows:
        return Finding("Spark", where, f"{spark.version}, writes the lake", "")
    wrong = f"wrote {rows} rows, of which {there} are visible here"
    return Finding("Spark", where, wrong, "Name a lake that all hosts share.")


def _rows(lake: Lake, path: str) -> int:
    """Returns the number of rows whose files are visible here."""
    try:
        return sum(one.num_rows for one in lake.open(path).to_pyarrow_table().to_batches())
    except (DeltaError, OSError):
        return 0


def _asked(spark: SparkSession, asked: Asked, count: int) -> list[Looked]:
    """Returns the facts of so many tasks."""
    begun = time.time()
    found = spark.range(0, count, 1, count).mapInArrow(partial(look_all, asked), "facts string").toArrow()
    ended = time.time()
    return [Looked(Facts(**json.loads(text)), begun, ended) for text in pa.table(found)["facts"].to_pylist()]

"""The staged files become a table that the lake does not have yet: its first commit names copies of them.

No row is written anew. It is possible where the files have the table's own columns, and no change is to be laid over
them. The commit is delta-rs'; it has all rows, the table's app id and the copy's mark. The table's properties follow by
Spark, whose features delta-rs does not know. A switch that is killed between the two is done again: see `claim_own`.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import FileType, PyFileSystem, copy_files
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from spark_jobs.copy.commit import Replacement
from spark_jobs.copy.result import WentOn
from spark_jobs.copy.target import Target
from spark_jobs.lake.ddl import listed
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import delta_type

_COPIES = 4  # files copied at once
_CHUNK = 8 << 20  # bytes of each that are in memory


def adoptable(staged: DeltaTable, new: Replacement) -> bool:
    """Whether the staged files can be the table's own: there is no table, and the columns are the same."""
    there = [(field.name, delta_type(field.type)) for field in staged.schema().fields]
    return new.state is None and there == [(column.name, column.type) for column in new.columns]


def adopt(spark: SparkSession, staged: DeltaTable, path: str, new: Replacement) -> None:
    """Makes the table of the files of the staging table at `path`. Raises LakeError where they cannot be copied, WentOn
    where another one has made the table, and Spark's errors."""
    target = new.target
    files = pa.table(staged.get_add_actions(flatten=True)).to_pylist()
    noted = CommitProperties(
        custom_metadata={"userMetadata": new.metadata}, app_transactions=[Transaction(target.app, new.note.mark)]
    )
    try:
        _copy(target.lake, path, target.path, [one["path"] for one in files])
        create_table_with_add_actions(
            target.path,
            _commented(staged, new),
            [AddAction(one["path"], one["size_bytes"], {}, 0, True, _stats(one)) for one in files],
            "error",
            description=new.schema.comment or None,
            storage_options=target.lake.storage or None,
            commit_properties=noted,
        )
    except (DeltaError, OSError) as error:
        if target.lake.has(target.database, target.table):
            raise WentOn(target.path) from error
        hint = "Make the lake writable and give it room for one more copy of the table; then start the snapshot again."
        raise LakeError(f"the rows cannot be copied: {first_line(error)}", place=target.path, hint=hint) from error
    spark.sql(f"ALTER TABLE delta.{quote(target.path)} SET TBLPROPERTIES ({listed(new.properties)})")


def remove_copies(staged: DeltaTable, target: Target) -> None:
    """What a switch that was killed before its commit has copied: Spark makes no table where files lie."""
    path, storage = target.path, target.lake.storage or None
    with suppress(DeltaError, OSError):
        folder = PyFileSystem(DeltaStorageHandler(path, storage))
        names = pa.table(staged.get_add_actions(flatten=True))["path"].to_pylist()
        for one in folder.get_file_info(names):
            if one.type is FileType.File:
                folder.delete_file(one.path)


def claim_own(target: Target) -> None:
    """Names the owner of a table whose first commit is ours, and that a switch which was killed left without one.
    Nobody else's commit has the app id. What is there is replaced then as any table is."""
    lake = target.lake
    state = lake.state(target.path, target.app)
    if state is not None and state.applied is not None and DESTINATION not in state.properties:
        owner = {DESTINATION: target.client.destination, TABLE: target.name}
        lake.open(target.path).alter.set_table_properties(owner, raise_if_not_exists=False)


def _copy(lake: Lake, source: str, into: str, names: list[str]) -> None:
    """On a local disk by links, which cost nothing, where it has them."""
    if "://" not in into:
        Path(into).mkdir(parents=True, exist_ok=True)
        names = [name for name in names if not _linked(Path(source, name), Path(into, name))]
    here, there = (PyFileSystem(DeltaStorageHandler(path, lake.storage or None)) for path in (source, into))
    copy = partial(copy_files, source_filesystem=here, destination_filesystem=there, chunk_size=_CHUNK)
    with ThreadPoolExecutor(_COPIES) as pool:
        list(pool.map(copy, names, names))


def _linked(file: Path, into: Path) -> bool:
    try:
        into.unlink(missing_ok=True)
        into.hardlink_to(file)
    except OSError:
        return False
    return True


def _commented(staged: DeltaTable, new: Replacement) -> Schema:
    comments = [{"comment": column.comment} if column.comment else {} for column in new.columns]
    fields = zip(staged.schema().fields, comments, strict=True)
    return Schema([Field(field.name, field.type, metadata=comment) for field, comment in fields])


def _stats(file: dict[str, Any]) -> str:
    """What the staging table's log says of a file (Delta protocol, "Per-file Statistics")."""
    parts = {"minValues": "min.", "maxValues": "max.", "nullCount": "null_count."}
    known = {key: value for key, value in file.items() if value is not None}
    stats = {
        part: {key.removeprefix(prefix): value for key, value in known.items() if key.startswith(prefix)}
        for part, prefix in parts.items()
    }
    return json.dumps({"numRecords": file["num_records"], **stats})

"""Checks that a lake's store refuses a commit whose file exists already: once, before a lake has its writer.

Two handles of one version of a table commit different properties. The second one must be refused. A store that does not
know conditional PUTs treats them as PUTs, and lets it through.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.schema import PrimitiveType

from cdc_core.errors import LakeError
from spark_jobs.lake.tables import Lake


def probe(lake: Lake) -> None:
    """Raises LakeError for a store that replaces commits, and delta-rs' error for a store that cannot be written."""
    path = f"{lake.root}/_sluice/probe/{uuid.uuid4().hex}"
    try:
        DeltaTable.create(path, Schema([Field("note", PrimitiveType("string"))]), storage_options=lake.storage or None)
        first, second = lake.open(path), lake.open(path)
        first.alter.set_table_properties({"sluice.probe": "first"}, raise_if_not_exists=False)
        try:
            second.alter.set_table_properties({"sluice.probe": "second"}, raise_if_not_exists=False)
        except CommitFailedError:
            return
        hint = "Use a store with conditional PUTs (If-None-Match), such as S3 itself, or a newer version of this one."
        raise LakeError("the store lets a commit replace another one", place=lake.root, hint=hint)
    finally:
        with suppress(OSError, DeltaError):
            DeltaStorageHandler(path, lake.storage or None).delete_dir("")

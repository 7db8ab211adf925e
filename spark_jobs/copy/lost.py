"""The keys that left the parents of a table with an open snapshot, kept beside its change log.

Rows that name such a key were deleted or changed at the source without a word in the binlog. A run keeps the keys
before it acks; they may be there more than once. There is a Delta table for each foreign key, which its description
names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from cdc_core.errors import LakeError
from spark_jobs.copy.files import numbered
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.tables import Lake
from spark_jobs.snapshot.foreign_keys import ForeignKey, Rule


@dataclass(frozen=True, slots=True)
class LostKeys:
    """Those of one snapshot."""

    lake: Lake
    destination: str
    snapshot_id: str

    @property
    def path(self) -> str:
        return f"{self.lake.staging_path(self.destination, self.snapshot_id)}/lost"

    def keep(self, key: ForeignKey, keys: pa.Table) -> None:
        """Adds keys; the columns are the referenced ones, in their order. Raises LakeError."""
        if not keys.num_rows:
            return
        schema, text = numbered(keys.schema), json.dumps(asdict(key))
        name = hashlib.sha256(f"{text} {schema}".encode()).hexdigest()[:16]
        rows, storage = pa.Table.from_arrays(keys.columns, schema=schema), self.lake.storage or None
        try:
            write_deltalake(f"{self.path}/{name}", rows, mode="append", description=text, storage_options=storage)
        except (DeltaError, OSError) as error:
            hint = "Make the lake writable and give it room; the batch stays claimable."
            raise LakeError(f"lost keys cannot be kept: {first_line(error)}", place=self.path, hint=hint) from error

    def tables(self) -> Iterator[tuple[ForeignKey, str]]:
        """The foreign keys, each with the path of the keys that were lost, the columns under numbers. Raises
        LakeError."""
        try:
            folder = PyFileSystem(DeltaStorageHandler(self.path, self.lake.storage or None))
            for one in folder.get_file_info(FileSelector("", allow_not_found=True)):
                if one.type is FileType.Directory:
                    path = f"{self.path}/{one.base_name}"
                    yield _key(self.lake.open(path).metadata().description or ""), path
        except TableNotFoundError:
            return
        except (DeltaError, OSError) as error:
            hint = "See that the lake can be read, and start the snapshot again."
            raise LakeError(f"lost keys cannot be read: {first_line(error)}", place=self.path, hint=hint) from error


def _key(text: str) -> ForeignKey:
    fields = json.loads(text)
    child, parent = ((str(one[0]), str(one[1])) for one in (fields["child"], fields["parent"]))
    columns, referenced = tuple(fields["columns"]), tuple(fields["referenced"])
    return ForeignKey(child, columns, parent, referenced, Rule(fields["on_delete"]), Rule(fields["on_update"]))

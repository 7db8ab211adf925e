"""A share of a group: the chunks that one connection reads, and writes into the staging table's folder.

It is a value that travels: a thread of this process writes it, or a task of Spark on another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cdc_core.rows.columns.cells import ZeroDates
from cdc_core.schema.table import TableSchema
from spark_jobs.copy.files import Files, StagedFile, staged_schema
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.reading import read_chunks
from spark_jobs.snapshot.source import Source


@dataclass(frozen=True, slots=True)
class CopyTask:
    """`conditions` are the chunks' in SQL, `limits` those of this share alone; `path` is the staging table's, and
    `storage` delta-rs' options for it."""

    source: Source
    schema: TableSchema
    zero_dates: ZeroDates
    limits: Limits
    conditions: tuple[str, ...]
    path: str
    storage: Mapping[str, str] = field(repr=False)

    def written(self, over: Callable[[], bool] = lambda: False) -> list[StagedFile]:
        """Reads and writes all rows. Ends early where `over` says so.

        Raises SourceError, SourceUnavailable, SchemaError and DecodeError as `read_chunks` does, LakeError where
        nothing can be written.
        """
        files = Files(self.path, self.storage, staged_schema(self.schema))
        for batch in read_chunks(self.source, self.schema, list(self.conditions), self.zero_dates, self.limits):
            files.add(batch)
            if over():
                return []
        return files.end()

"""Reads the chunks of a table in groups, each group one commit of the staging table.

After a killed run the next one continues after the last group that is there. Several connections read a group's chunks
at once, each a share of them. A share is a value that travels: a thread of this process writes it, or a task of Spark
on another machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import islice

from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.table import TableSchema
from spark_jobs.load.files import Files, StagedFile, staged_schema
from spark_jobs.load.staging import Groups, Staging
from spark_jobs.snapshot.chunk import Bound, Chunk, where
from spark_jobs.snapshot.chunks import last_key, plan_chunks
from spark_jobs.snapshot.failures import asked
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
        """Reads and writes all rows, and returns their files. Ends early if `over` says so.

        Raises SourceError, SourceUnavailable, SchemaError and DecodeError as `read_chunks` does, LakeError if nothing
        can be written.
        """
        files = Files(self.path, self.storage, staged_schema(self.schema))
        for batch in read_chunks(self.source, self.schema, list(self.conditions), self.zero_dates, self.limits):
            files.add(batch)
            if over():
                return []
        return files.end()


ROWS_PER_GROUP = 2_000_000
Readers = Callable[[Sequence[CopyTask]], list[StagedFile]]
"""Writes shares at the same time, and returns the files that have their rows, each row once."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a table is read: from where, in chunks of how many rows, and what protects the source."""

    source: Source
    schema: TableSchema
    zero_dates: ZeroDates
    limits: Limits
    rows_per_chunk: int

    @property
    def chunks_per_group(self) -> int:
        return max(self.limits.connections, ROWS_PER_GROUP // self.rows_per_chunk)


def stage_groups(reading: Reading, staging: Staging, report: Callable[[Groups], None], readers: Readers) -> Groups:
    """Stages the groups that are not staged yet. `report` is called with each group, and may raise to end it.

    Raises SourceError and SourceUnavailable, SchemaError for a table that was altered meanwhile, DecodeError for a
    refused value, LakeError if nothing can be staged.
    """
    staged = staging.staged()
    report(staged)
    with asked(reading.source, reading.schema.name) as connection:
        upto = last_key(connection, reading.schema)  # rows that are appended from here on are in the change log
    while not staged.whole:
        chunks = _planned(reading, staged, upto)
        table = staging.table(staged_schema(reading.schema))
        files = readers(_shares(reading, staging, chunks))
        staging.commit(table, files, staged.then(chunks))
        staged = staging.staged()  # the last group of a killed run counts as well
        report(staged)
    return staged


def _planned(reading: Reading, staged: Groups, upto: Bound | None) -> Sequence[Chunk]:
    with asked(reading.source, reading.schema.name) as connection:
        walk = plan_chunks(connection, reading.schema, reading.rows_per_chunk, after=staged.last, upto=upto)
        return list(islice(walk, reading.chunks_per_group))


def _shares(reading: Reading, staging: Staging, chunks: Sequence[Chunk]) -> list[CopyTask]:
    """Divides the chunks into shares, each a range of the key; together they keep the limits."""
    conditions = [where(reading.schema, chunk) for chunk in chunks]
    count = reading.limits.shares(len(chunks))
    alone = reading.limits.share(count)
    return [
        CopyTask(
            reading.source,
            reading.schema,
            reading.zero_dates,
            alone,
            tuple(conditions[number * len(chunks) // count : (number + 1) * len(chunks) // count]),
            staging.path,
            staging.lake.storage,
        )
        for number in range(count)
    ]


def in_threads(shares: Sequence[CopyTask]) -> list[StagedFile]:
    """Writes the shares at the same time in this process. The first error ends all, and is raised."""
    over = threading.Event()
    with ThreadPoolExecutor(len(shares), thread_name_prefix="share") as pool:
        parts = [pool.submit(share.written, over.is_set) for share in shares]
        try:
            for part in as_completed(parts):
                part.result()
        finally:
            over.set()
    return [file for part in parts for file in part.result()]

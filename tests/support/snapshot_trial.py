"""A snapshot of one table of a shop, as a reader makes it: opened, read in two parts at two times, staged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from cdc_core.contract.snapshot import Snapshot
from cdc_core.schema.information_schema import definition
from cdc_core.schema.table import TableSchema
from spark_jobs.load.cutover import Cutover
from spark_jobs.load.staging import StagedRows, Staging
from spark_jobs.load.view import Opened, opened
from spark_jobs.snapshot.binlog import position
from spark_jobs.snapshot.place import SnapshotPlace
from spark_jobs.snapshot.reading import read_chunk, read_rows
from spark_jobs.snapshot.source import Source, connect
from tests.support.shop import Shop


@dataclass
class SnapshotTrial:
    """`first`: the lake has no such table."""

    shop: Shop
    table: str
    first: bool = False
    lease: float = 60.0

    @property
    def name(self) -> str:
        return f"{self.shop.database}.{self.table}"

    @property
    def source(self) -> Source:
        mysql = self.shop.mysql
        return Source(mysql.host, mysql.port, mysql.user, mysql.password)

    def open(self, owner: str = "reader") -> Snapshot:
        snapshots = self.shop.connector.snapshots
        return snapshots.open(self.name, owner=owner, first=self.first, lease_seconds=self.lease)

    def in_two_parts(self, snapshot: Snapshot, between: Callable[[], None]) -> StagedRows:
        """A table with a key `id`: even ids, then `between`, then odd ids, each part at its own time."""
        connection = connect(self.source)
        connection.autocommit(True)
        try:
            low = position(connection)
            time.sleep(0.5)  # what is in the binlog is shown by then
            schema = definition(connection, self.shop.database, self.table)
            assert schema is not None
            parts = [list(read_chunk(self.source, schema, "id % 2 = 0"))]
            between()
            parts.append(list(read_chunk(self.source, schema, "id % 2 = 1")))
            place = SnapshotPlace(low, position(connection))
        finally:
            connection.close()
        return self._staged(snapshot, schema, place, iter([batch for part in parts for batch in part]))

    def at_once(self, snapshot: Snapshot, meanwhile: Callable[[], None]) -> StagedRows:
        """Any table, in one view of the source; `meanwhile` others write."""
        with opened(self.source, self.shop.database, self.table, as_text=False, sleep=time.sleep) as there:
            assert isinstance(there, Opened)
            meanwhile()
            batches = read_rows(there.connection, there.schema, "fail")
            return self._staged(snapshot, there.schema, there.place, batches)

    def cutover(self) -> Cutover:
        return Cutover(self.shop.connector, self.shop.lake.lake, self.shop.lake.sessions)

    def _staged(
        self, snapshot: Snapshot, schema: TableSchema, place: SnapshotPlace, batches: Iterator[pa.RecordBatch]
    ) -> StagedRows:
        staging = Staging(self.shop.lake.lake, "shop", snapshot.id)
        return StagedRows(staging.path, schema, place, staging.write(batches, schema))

"""`Beside`: tables compared by checksums while others write and drain, each at a time of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from cdc_core.client.connector import Connector
from cdc_core.position import EntryPosition
from cdc_core.rows.columns.cells import ZeroDates
from cdc_core.schema.information_schema import definition
from cdc_core.schema.names import full_name, split_name
from cdc_core.schema.table import TableSchema
from spark_jobs.following.pending import Follows
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.snapshot.binlog import position
from spark_jobs.snapshot.foreign_keys import ancestors, read_foreign_keys
from spark_jobs.snapshot.oracle import describe
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.verify.audit import Settle, as_the_lake_has, audit, leave
from spark_jobs.verify.candidates import TooMany
from spark_jobs.verify.merged import await_merged
from spark_jobs.verify.standing import Place
from spark_jobs.verify.verify import Reader, Verified, await_lake, definitions_compared, or_why_not


@dataclass(frozen=True, slots=True)
class Beside:
    """For tables of one client. `timeout_seconds` for each of them. `settle` is called with a table, then with what
    differs, while the lake stands."""

    connector: Connector
    source: Source
    lake: Lake
    timeout_seconds: float = 60.0
    settle: Callable[[Place], Settle] = lambda _: leave
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def await_lake(self) -> None:
        """Waits until the lake has all that the source has written by now. Raises LakeError when it is not in time."""
        deadline = self.clock() + self.timeout_seconds
        self._awaited(self.connector.client_status().epoch, lambda: self.clock() < deadline)

    def table(self, database: str, table: str) -> Verified | None:
        """None for a table that checksums cannot compare: without a key, with a zero date in one, with other columns
        in the lake than at the source, or of which millions of rows differ.

        Raises LakeError when the lake does not reach the source's present end in time.
        """
        name, epoch = full_name(database, table), self.connector.client_status().epoch
        path = self.lake.path(database, table)
        follows = Follows(self.lake, self.connector.destination, self.connector.client_id)
        state = self.lake.state(path, app_id(self.connector.destination, self.connector.client_id, name, epoch))
        if state is None or state.dropped:
            return None
        deadline = self.clock() + self.timeout_seconds

        def in_time() -> bool:
            return self.clock() < deadline

        low = self._awaited(epoch, in_time)

        def compared() -> Verified | None:
            await_merged(follows, name, in_time, self.sleep)
            return self._compared(database, table, state, low, in_time)

        return or_why_not(name, low, compared)

    def _awaited(self, epoch: int, in_time: Callable[[], bool]) -> EntryPosition:
        """The source's present end, which the lake has reached."""
        client = self.connector
        with closing(connect(self.source)) as connection:
            connection.autocommit(True)
            low = position(connection)
            reader = Reader(client.destination, client.client_id, epoch, lambda: client.client_status().cursor)
            await_lake(connection, reader, low, in_time, self.sleep)
        return low

    def _compared(
        self, database: str, table: str, state: TableState, low: EntryPosition, in_time: Callable[[], bool]
    ) -> Verified | None:
        with closing(connect(self.source)) as connection:
            found = definition(connection, database, table)
            schema = as_the_lake_has(found, state) if found else None
            if schema is None:
                return None
            there = self.lake.open(self.lake.path(database, table))
            dated = any(column.as_text for column in schema.columns)
            texts = {column.name for column in state.columns if column.type == "string"}
            differing = definitions_compared(describe(connection, database, table, texts), there, state)
        zero_dates: ZeroDates = "string" if dated else "null"
        place = Place(self.connector, self.source, self.lake, schema, zero_dates, lambda: self._parents(schema))
        try:
            audited = audit(place, there, settle=self.settle(place), in_time=in_time, sleep=self.sleep)
        except TooMany:
            return None
        if audited is None:
            return None
        return Verified(schema.name, audited.comparison, audited.place or low, differing, repaired=audited.settled)

    def _parents(self, schema: TableSchema) -> frozenset[str]:
        with closing(connect(self.source)) as connection:
            keys = read_foreign_keys(connection, lambda: [split_name(one.name) for one in self.connector.tables()])
        return frozenset(full_name(*one) for one in ancestors(keys, (schema.database, schema.table)))

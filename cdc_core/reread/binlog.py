"""Reads the source's binlog again between two places, as the service read it, without the service.

It reads no further than the end, and holds a block and the transactions that its caller keeps. Definitions come from
the events, and from the catalogue of now where the events have none: rows of a table whose columns changed since may
then be unreadable, which the error of that table says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa

from cdc_core.binlog.block import Block
from cdc_core.config.models import InstanceConfig
from cdc_core.errors import PositionPurged
from cdc_core.position import JOURNAL_START, EntryPosition
from cdc_core.reread.transaction import Transaction, Transactions
from cdc_core.rows.net import plan_changes, read
from cdc_core.schema.information_schema import complete
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import TableSchema
from cdc_core.source.checks import check_server
from cdc_core.source.connection import connect, connected
from cdc_core.source.journal_range import read_range
from cdc_core.source.journals import binary_logs, check_exists
from cdc_core.source.settings import SourceSettings, source_settings
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.ddl_events import DdlReader, Traits
from cdc_core.stream.expand import Expander
from cdc_core.stream.filter import make_filter
from cdc_core.stream.history import History
from cdc_core.stream.pipeline import Pipeline
from cdc_core.stream.settle import Settler


def never() -> bool:
    return False


@dataclass(slots=True)
class BinlogReader:
    """Reads the server at `address` (`host:port`) with the account of the configuration, which also says which tables
    are captured. `keep`: so many rows of each transaction can be asked for."""

    config: InstanceConfig
    address: str
    keep: int
    stopped: Callable[[], bool] = never
    registry: SchemaRegistry = field(default_factory=SchemaRegistry)

    def transactions(
        self, begin: EntryPosition, end: EntryPosition, after: EntryPosition | None = None
    ) -> Iterator[Transaction]:
        """Yields the transactions that changed captured tables, from `begin`, where one begins, to `end`. Events up to
        `after` do not count. Raises PositionPurged if the server no longer has the place, SourceError, DecodeError."""
        settings = source_settings(self.config, self.address)
        found = Transactions(self.registry, (after or begin).version(), self.keep)
        for block in self._blocks(settings, begin, end):
            yield from found.push(block)
        if (rest := found.rest()) is not None:
            yield rest

    def definitions(self, table: str) -> list[TableSchema]:
        """Returns the definitions of a table that the transactions so far have rows of."""
        found = (self.registry.get(number) for number in sorted(self.registry.numbers()))
        return [one for one in found if one.name == table]

    def images(self, transaction: Transaction, table: str) -> Iterator[pa.RecordBatch]:
        """Yields the images of the transaction's first rows of a table, as mode `changes` has them. Raises
        TableStopped or DecodeError for rows that cannot be read whole."""
        plan = plan_changes(transaction.slices, self.registry, table)
        yield from read(plan, 0, "null")

    def _blocks(self, settings: SourceSettings, begin: EntryPosition, end: EntryPosition) -> Iterator[Block]:
        with connected(settings) as conn:
            check_exists(conn, begin)
            names = [log.name for log in binary_logs(conn)]
        if end.journal_name not in names:
            hint = "Ask for a range whose end the server has: SHOW BINARY LOGS."
            raise PositionPurged(f"the journal {end.journal_name} is unknown to the server", place=str(end), hint=hint)
        way = self._way(settings)
        for name in names[names.index(begin.journal_name) : names.index(end.journal_name) + 1]:
            start = begin if name == begin.journal_name else EntryPosition(name, JOURNAL_START)
            upto = end.position if name == end.journal_name else None
            if upto is not None and upto <= start.position:
                return
            way.reset()
            with closing(read_range(settings, start, upto, self.stopped)) as blocks:
                for block in blocks:
                    yield from way.push(block)

    def _way(self, settings: SourceSettings) -> Pipeline:
        """Returns what the service's blocks go through, up to the ring."""
        captured = make_filter(self.config.filter_regex, self.config.filter_black_regex)
        with connected(settings) as conn:
            server = check_server(conn, settings, captured)
        traits = Traits(server.flavor == "mariadb", server.lower_case)
        history = History.of_server(settings, self.stopped)

        def resolve(schema: TableSchema, _end: EntryPosition) -> TableSchema:
            return complete(schema, lambda: connect(settings)).as_read(self.config.zero_dates)

        annotator = Annotator(self.registry, resolve, captured, DdlReader(captured, lambda: traits))
        return Pipeline(Expander(), Settler(history.reread, history.find_prepared), annotator)

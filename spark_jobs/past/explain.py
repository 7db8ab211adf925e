"""A span explained: its transactions, the versions that it made of tables, and their rows before and after.

The lake is asked first, then the source's binlog, which alone has the transactions. What nobody can know is said, not
raised. At most `limit` transactions, tables and rows of a table are kept, whatever the span has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from cdc_core.errors import PositionError, SluiceError
from cdc_core.gtid import Gtid, Gtids, parse_gtid_field
from cdc_core.position import EntryPosition
from cdc_core.reread.binlog import BinlogReader
from cdc_core.reread.transaction import Transaction
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.sql_text import without_literals
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.columns import NAMES
from spark_jobs.lake.seen_columns import noted_rules, ruled_columns
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.past.changed import ChangedRow, changed_rows
from spark_jobs.past.images import past_images
from spark_jobs.past.noted import Span
from spark_jobs.past.versions import MadeVersions

_HIDDEN = "values of the binlog are not shown: the lake does not have the table, or rules make its rows"
_LACKS = "columns that the lake does not have are left out"
_CHANGES = ("inserts", "updates", "deletes")
_COUNTED = (*_CHANGES, "net_rows")


@dataclass(frozen=True, slots=True)
class TableExplained:
    """What a span did to a table. `counts`: the source's operations, of which `net_rows` were left, by the ledger, or
    by the transactions that were read. `origin` of the rows: log, versions, binlog or none; `unknown`: what that cannot
    show. `more`: there are further rows."""

    table: str
    key: tuple[str, ...]
    counts: Mapping[str, int]
    versions: MadeVersions | None
    origin: str
    unknown: str
    rows: tuple[ChangedRow, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Explained:
    """`transactions_unknown`: why there are no transactions, or not all, "" otherwise; `more_transactions`, and
    `left_out` tables: beyond the limit. `narrowed`: only the one transaction that was asked for is explained."""

    span: Span
    transactions: tuple[Transaction, ...]
    transactions_unknown: str
    more_transactions: bool
    tables: tuple[TableExplained, ...]
    left_out: int
    narrowed: bool = False


@dataclass(frozen=True, slots=True)
class Explainer:
    """`binlog` reads the source, or `no_binlog` says why it is not read. `rules` are the client's; None: not known."""

    tables: ClientTables
    binlog: BinlogReader | None
    no_binlog: str = ""
    limit: int = 20
    rules: Rules | None = NO_RULES

    def explain(
        self, span: Span, named: Sequence[str] = (), one: Callable[[Transaction], bool] | None = None
    ) -> Explained:
        """Explains a span, or of it the `named` tables, or the `one` transaction."""
        found, unknown = self._transactions(span, named, one)
        more, shown = len(found) > self.limit, found[: self.limit]
        if one is not None and shown:
            last = shown[0].end or span.end
            span = replace(span, start=shown[0].start, end=last, begin=shown[0].start)
        narrowed = one is not None and bool(shown)
        touched = {table for each in shown for table in each.rows}
        there = touched if narrowed else {*span.tables, *touched}
        wanted = [table for table in (named or sorted(there)) if table in there or named]
        tables = tuple(self._table(span, table, shown, narrowed=narrowed) for table in wanted[: self.limit])
        plain = {table for table in touched if self._is_plain(table)}
        return Explained(
            span, tuple(self._without_secrets(each, plain) for each in shown), unknown, more, tables,
            max(0, len(wanted) - self.limit), narrowed,
        )  # fmt: skip

    def _transactions(
        self, span: Span, named: Sequence[str], one: Callable[[Transaction], bool] | None
    ) -> tuple[list[Transaction], str]:
        """Returns one transaction more than the limit if there are more, and why they are not all."""
        if self.binlog is None:
            return [], self.no_binlog
        wanted, begin = {*named}, span.begin or span.start
        found = list[Transaction]()
        try:  # one transaction is asked for by its beginning, which may be in a batch before
            for each in self.binlog.transactions(begin, span.end, span.start if one is None else begin):
                if one is not None and not one(each):
                    continue
                if not wanted or wanted & each.rows.keys():
                    found.append(each)
                if len(found) > self.limit or (one is not None and found):
                    break
        except SluiceError as error:
            place = f" ({error.place})" if error.place else ""
            return found, f"the source's binlog cannot show {'more' if found else 'them'}: {error.message}{place}"
        missing = one is not None and not found
        return found, "the source's binlog has no such transaction in this batch" if missing else ""

    def _table(self, span: Span, table: str, shown: Sequence[Transaction], *, narrowed: bool) -> TableExplained:
        past = past_images(self.tables, table, span)
        counts = _seen(shown, table) if narrowed or not span.batches else _noted(span, table)
        made = TableExplained(table, past.key, counts, past.versions, past.origin, past.unknown)
        if past.origin == "none":
            return self._from_binlog(made, shown)
        try:
            return self._with_rows(made, changed_rows(past.read()))
        except SluiceError as error:
            return self._from_binlog(replace(made, origin="none", unknown=error.message), shown)

    def _from_binlog(self, made: TableExplained, shown: Sequence[Transaction]) -> TableExplained:
        """Returns it with the rows of the transactions that were read, if they may be shown."""
        own = [each for each in shown if made.table in each.rows]
        if self.binlog is None or not own:
            return made
        columns = self._columns(made.table)
        if columns is None:
            return replace(made, unknown=f"{made.unknown}; {_HIDDEN}".removeprefix("; "))
        if not self._is_plain(made.table):
            made = replace(made, unknown=f"{made.unknown}; {_LACKS}".removeprefix("; "))
        try:
            found = self._with_rows(made, self._read_again(own, made.table, columns))
        except SluiceError as error:
            return replace(made, unknown=f"{made.unknown}; the binlog: {error.message}".removeprefix("; "))
        known = sum(made.counts.get(name, 0) for name in _CHANGES)
        return replace(found, origin="binlog", unknown=made.unknown, more=found.more or known > len(found.rows))

    def _read_again(
        self, transactions: Sequence[Transaction], table: str, columns: Collection[str]
    ) -> Iterator[ChangedRow]:
        assert self.binlog is not None
        for each in transactions:
            version = (each.end or each.start).version()
            images = (_with_columns(one, columns) for one in self.binlog.images(each, table))
            for row in changed_rows(images):
                yield replace(row, version=version, time=each.time)

    def _with_rows(self, made: TableExplained, rows: Iterator[ChangedRow]) -> TableExplained:
        first = tuple(islice(rows, self.limit + 1))
        return replace(made, rows=first[: self.limit], more=len(first) > self.limit)

    def _is_plain(self, table: str) -> bool:
        """Whether the lake shows the source's values of the table as they are, of all columns that were read."""
        columns = self._columns(table)
        return columns is not None and all({*names} <= columns for names in map(_names, self._read_definitions(table)))

    def _columns(self, table: str) -> set[str] | None:
        """Returns the columns of the table that the lake has; None if it does not show the source's values as they are,
        as far as the lake and the rules say."""
        try:
            state = self.tables.lake.state(self.tables.path(table), "")
            log = None if state else self.tables.log(table)
        except SluiceError:
            return None
        ruled = noted_rules(state) if state else log is None or ruled_columns(log.definition)
        if ruled or any(self.rules.view(one) != one for one in self._read_definitions(table) if self.rules):
            return None
        there = state.columns if state else log.columns if log else ()
        return {column.name for column in there}

    def _read_definitions(self, table: str) -> list[TableSchema]:
        return self.binlog.definitions(table) if self.binlog else []

    def _without_secrets(self, transaction: Transaction, plain: set[str]) -> Transaction:
        """Returns it without its statements, if they may have values of a table that are not shown. A statement on
        other tables may ask such a table: it has no literals where rules hide anything."""
        if not transaction.rows.keys() <= plain:
            return replace(transaction, statements=[], left_out=transaction.left_out + len(transaction.statements))
        if self.rules is not None and not self.rules.hides:
            return transaction
        return replace(transaction, statements=[without_literals(one, None) for one in transaction.statements])


def _with_columns(images: pa.RecordBatch, columns: Collection[str]) -> pa.RecordBatch:
    """Returns the images with these columns alone, and with those that say what they are."""
    return images.select([name for name in images.schema.names if name in columns or name in NAMES])


def _names(schema: TableSchema) -> list[str]:
    return [column.name for column in schema.shown]


def _noted(span: Span, table: str) -> Mapping[str, int]:
    notes = [batch.notes[table] for batch in span.batches if table in batch.notes]
    return {name: sum(int(note.get(name) or 0) for note in notes) for name in _COUNTED}


def _seen(transactions: Sequence[Transaction], table: str) -> Mapping[str, int]:
    own = [each.rows[table] for each in transactions if table in each.rows]
    return {name: sum(getattr(one, name) for one in own) for name in _CHANGES}


def holding(position: EntryPosition) -> Callable[[Transaction], bool]:
    """Returns whether a transaction has the event that ends at a position, or the one around it."""
    return lambda one: one.start < position and (one.end is None or position <= one.end)


def with_gtid(gtid: str) -> Callable[[Transaction], bool]:
    """Returns whether a transaction has the GTID, however that is written."""
    asked = _same(gtid)
    return lambda one: _same(one.gtid) == asked


def _same(gtid: str) -> Gtid | Gtids | str:
    try:
        return parse_gtid_field(gtid.strip()) or ""
    except PositionError:
        return gtid.strip().lower()

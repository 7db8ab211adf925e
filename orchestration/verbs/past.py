"""The part of the past that an undo or a replay asks for: the changes, the tables, and where their rows come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from cdc_core.errors import ConfigError, SluiceError
from cdc_core.reread.binlog import BinlogReader
from cdc_core.reread.transaction import Transaction
from orchestration.verbs.access import Access
from orchestration.verbs.correcting import tables_of
from orchestration.verbs.orders import Replay, Undo
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.past.asked import AskedPast
from spark_jobs.past.explain import with_gtid
from spark_jobs.past.noted import PastBatches, Span
from spark_jobs.undo.decision import MOST_ROWS
from spark_jobs.undo.parts import past_part
from spark_jobs.undo.plan import PastPart


@dataclass(frozen=True, slots=True)
class AskedPart:
    """The changes of a span in the tables `names`. `binlog` reads the source, None where it cannot be read. `wide`: of
    a table that only the transaction that was asked for changed in its batches, those batches."""

    tables: ClientTables
    span: Span
    names: list[str]
    text: str
    binlog: BinlogReader | None
    wide: Mapping[str, Span] = field(default_factory=dict)

    @property
    def bounds(self) -> tuple[int, int, int]:
        """The epoch, and the versions after which and up to which its changes are."""
        return self.span.epoch, self.span.start.version(), self.span.end.version()

    def part_of(self, table: str) -> PastPart:
        return past_part(self.tables, table, self.wide.get(table, self.span), self.binlog)


def asked_part(order: Undo | Replay, at: Access) -> AskedPart:
    """Returns what the order asks for. Raises ConfigError for what the lake or the source does not have."""
    tables = tables_of(at)
    asked = AskedPast(order.batch, gtid=order.gtid, since=order.since, until=order.until)
    span = asked.span(PastBatches(tables.ledger))
    binlog, why = _binlog(at, tables, span)
    found = AskedPart(tables, span, _names(order, span.tables), asked.text, binlog)
    if order.gtid:
        found = _narrowed(found, order, why)
    if not found.names:
        hint = "`sluice explain` shows what batches did."
        raise ConfigError("no table has changes there", place=asked.text, hint=hint)
    return found


def _names(order: Undo | Replay, changed: list[str]) -> list[str]:
    """Returns the tables that are meant, of which those `changed` are all that have changes there: of a union only its
    shards among them."""
    return [one for one in order.tables if one in changed or one not in order.by_union] if order.tables else changed


def _narrowed(found: AskedPart, order: Undo | Replay, why: str) -> AskedPart:
    """Returns the one transaction of its batches, and the tables that it changed. Raises ConfigError if neither the
    source nor GTIDs distinguish it from the others, or a part of it has not come yet."""
    span, gtid = found.span, order.gtid
    if span.batches[-1].partial:
        hint = "Wait until its last batch is merged, then do it again."
        raise ConfigError("a part of the transaction is not in the lake yet", place=gtid, hint=hint)
    hint = f"Ask for the batches that have it: --batch {span.numbers}. They may have others too."
    mine, others = None, set[str]()
    try:
        for one in _transactions(found.binlog, why, span):
            if mine is None and with_gtid(gtid)(one):
                mine = replace(one, slices=[])
            else:
                others |= one.rows.keys()
    except SluiceError as error:
        if span.only:
            return found
        message = f"the transaction cannot be separated from the others in its batches: {error.message}"
        raise ConfigError(message, place=gtid, hint=hint) from error
    if mine is None:
        raise ConfigError("the source's binlog does not have the transaction", place=gtid, hint=hint)
    own = replace(span, start=mine.start, end=mine.end or span.end, begin=mine.start)
    wide = {table: span for table in mine.rows if table not in others}
    return replace(found, span=own, names=_names(order, sorted(mine.rows)), wide=wide)


def _transactions(binlog: BinlogReader | None, why: str, span: Span) -> Iterator[Transaction]:
    """Yields the transactions of a span. Raises SluiceError, also without a `binlog`, with the reason."""
    if binlog is None:
        raise SluiceError(why, hint="")
    yield from binlog.transactions(span.begin or span.start, span.end, span.start)


def _binlog(at: Access, tables: ClientTables, span: Span) -> tuple[BinlogReader | None, str]:
    """Returns the reader of the source's binlog, or None and why there is none."""
    try:
        instance = at.instance
        with at.connect() as connector:
            address, epoch = connector.status().source.address or "", connector.client_status().epoch
    except SluiceError as error:
        return None, f"the source's binlog cannot be read: {error.message}"
    newest = max(epoch, tables.ledger.last_epoch(tables.ledger.opened()))
    if max(span.epoch, span.until) < newest:
        return None, "the destination was rewound since, or moved to another server, whose positions are others"
    return BinlogReader(instance, address or instance.sources[0], keep=MOST_ROWS), ""

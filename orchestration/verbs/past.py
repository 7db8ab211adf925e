"""The part of the past that an undo or a replay asks for: the changes, the tables, and where their rows come from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdc_core.errors import ConfigError, SluiceError
from cdc_core.reread.binlog import BinlogReader
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
    """The changes of a span in the tables `names`. `binlog` reads the source, None where it cannot be read."""

    tables: ClientTables
    span: Span
    names: list[str]
    text: str
    binlog: BinlogReader | None

    @property
    def bounds(self) -> tuple[int, int, int]:
        """The epoch, and the versions after which and up to which its changes are."""
        return self.span.epoch, self.span.start.version(), self.span.end.version()

    def part_of(self, table: str) -> PastPart:
        return past_part(self.tables, table, self.span, self.binlog)


def asked_part(order: Undo | Replay, at: Access) -> AskedPart:
    """Returns what the order asks for. Raises ConfigError for what the lake or the source does not have."""
    tables = tables_of(at)
    asked = AskedPast(order.batch, gtid=order.gtid, since=order.since, until=order.until)
    span = asked.span(PastBatches(tables.ledger))
    binlog, why = _binlog(at, tables, span)
    touched = span.tables
    if order.gtid and sum(batch.transactions for batch in span.batches) > 1:
        span, touched = _narrowed(span, order.gtid, binlog, why)
    names = order.tables or touched
    if not names:
        hint = "`sluice explain` shows what batches did."
        raise ConfigError("no table has changes there", place=asked.text, hint=hint)
    return AskedPart(tables, span, names, asked.text, binlog)


def _narrowed(span: Span, gtid: str, binlog: BinlogReader | None, why: str) -> tuple[Span, list[str]]:
    """Returns the span of the one transaction, and the tables that it changed. Raises ConfigError if the source cannot
    tell it from the others of its batch."""
    hint = f"Name its batch: --batch {span.batches[0].number} has it, and others."
    if binlog is None:
        raise ConfigError(f"the transaction is one of several of its batch, and {why}", place=gtid, hint=hint)
    for one in binlog.transactions(span.begin or span.start, span.end, span.start):
        if with_gtid(gtid)(one):
            end = one.end or span.end
            return replace(span, start=one.start, end=end, begin=one.start), sorted(one.rows)
    raise ConfigError("the source's binlog does not have the transaction", place=gtid, hint=hint)


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

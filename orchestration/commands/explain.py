"""`sluice explain`: what a batch or a transaction changed: rows before and after, statements, versions of tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cdc_core.errors import ConfigError, SluiceError
from cdc_core.position import split_version
from cdc_core.reread.binlog import BinlogReader
from cdc_core.reread.transaction import Transaction
from cdc_core.rules.rules import NO_RULES, Rules
from orchestration.commands.explained import show
from orchestration.commands.sql import plain
from orchestration.verbs.access import Access
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.past.asked import AskedPast, asked_position
from spark_jobs.past.changed import ChangedRow
from spark_jobs.past.explain import Explained, Explainer, TableExplained, holding, with_gtid
from spark_jobs.past.noted import PastBatch, PastBatches, Span
from spark_jobs.union.named import with_shards

_UNREAD = "the source's binlog was not read"


def run(at: Access, tables: Sequence[str], asked: AskedPast, limit: int, *, binlog: bool, as_json: bool) -> int:
    """Prints the explanation. Raises ConfigError for a batch that neither the lake nor the service knows."""
    own, service = ClientTables(at.lake, at.destination, at.client_id), None
    try:
        span = asked.span(PastBatches(own.ledger))
    except ConfigError:
        service = _Service.read(at) if asked.batch else None
        claimed = service.claimed(asked.numbers[0]) if service else None
        if claimed is None:
            raise
        span = claimed
    reader, why = None, f"{_UNREAD}: --no-binlog"
    if binlog:
        newest, service = own.ledger.last_epoch(own.ledger.opened()), service or _Service.read(at)
        reader, why = service.reader(at, span, newest, limit)
    one = with_gtid(asked.gtid) if asked.gtid else holding(asked_position(asked.position)) if asked.position else None
    rules = service.rules if service else None
    found = Explainer(own, reader, why, limit, rules).explain(span, _meant(own, tables, span), one)
    if as_json:
        print(json.dumps(facts(at, found), ensure_ascii=False), flush=True)
    else:
        show(found, limit)
    return 0


def _meant(own: ClientTables, tables: Sequence[str], span: Span) -> list[str]:
    """Returns the tables, and in the place of a union its shards: those that the span changed, if it is known to have
    changed some."""
    meant = with_shards(own.lake, tables)
    return [one for one in meant if one in tables or one in span.tables] or meant


@dataclass(frozen=True, slots=True)
class _Service:
    """What the service says: the server that it reads, "" if unknown, the epoch of the client, its claims, and its
    rules, None if unknown. Without a service the lake and the configured source answer."""

    address: str = ""
    epoch: int = 0
    claims: Sequence[Any] = ()
    rules: Rules | None = None

    @classmethod
    def read(cls, at: Access) -> _Service:
        try:
            with at.connect() as connector:
                status = connector.client_status()
                rules = NO_RULES if not status.rules else connector.rules()
                return cls(connector.status().source.address or "", status.epoch, status.claims, rules)
        except SluiceError:
            return cls()

    def claimed(self, number: int) -> Span | None:
        """Returns the span of a batch that is claimed and not acked, or None."""
        found = next((claim for claim in self.claims if claim.batch_id == number), None)
        return Span(self.epoch, found.start, found.end) if found is not None else None

    def reader(self, at: Access, span: Span, newest: int, limit: int) -> tuple[BinlogReader | None, str]:
        """Returns the reader of the binlog, which keeps `limit` rows of a transaction; or None, and why it cannot show
        the span. `newest`: the ledger's last epoch."""
        try:
            instance = at.instance
        except SluiceError as error:
            return None, f"{_UNREAD}: {error.message} (--conf)"
        if max(span.epoch, span.until) < max(self.epoch, newest):
            newer = "the destination was rewound since, or moved to another server, whose positions are others"
            return None, f"{_UNREAD}: {newer}"
        return BinlogReader(instance, self.address or instance.sources[0], keep=limit), ""


def facts(at: Access, found: Explained) -> dict[str, Any]:
    """Returns the explanation as JSON has it."""
    span = found.span
    return {
        "destination": at.destination, "client_id": at.client_id, "epoch": span.epoch,
        "start": str(span.start), "end": str(span.end), "acked": bool(span.batches), "one_transaction": found.narrowed,
        "batches": [_batch_facts(batch) for batch in span.batches[:100]], "batch_count": len(span.batches),
        "transactions": [_transaction_facts(one) for one in found.transactions],
        "more_transactions": found.more_transactions, "transactions_unknown": found.transactions_unknown,
        "tables": {one.table: _table_facts(one, span.end.journal_name) for one in found.tables},
        "tables_left_out": found.left_out,
    }  # fmt: skip


def _batch_facts(batch: PastBatch) -> dict[str, Any]:
    return {
        "batch_id": batch.number, "start": str(batch.start), "end": str(batch.end), "gtid": batch.gtid,
        "run_id": batch.run_id, "rows": batch.rows, "transactions": batch.transactions,
        "committed_at": batch.committed.isoformat(),
        "executed_at": batch.executed.isoformat() if batch.executed else None,
    }  # fmt: skip


def _transaction_facts(one: Transaction) -> dict[str, Any]:
    rows = {name: {"inserts": n.inserts, "updates": n.updates, "deletes": n.deletes} for name, n in one.rows.items()}
    return {
        "gtid": one.gtid, "start": str(one.start), "end": str(one.end or ""), "server_id": one.server_id,
        "time": one.time.isoformat() if one.time else None, "rows": rows, "statements": one.statements,
        "statements_left_out": one.left_out,
    }  # fmt: skip


def _table_facts(one: TableExplained, journal: str) -> dict[str, Any]:
    versions = one.versions
    made = [
        {
            "version": each.version, "kind": each.kind, "rows_inserted": each.counts[0],
            "rows_updated": each.counts[1], "rows_deleted": each.counts[2],
        } | ({"ddl": each.text} if each.text else {})
        for each in (versions.made[-100:] if versions else ())
    ]  # fmt: skip
    return {
        "counts": dict(one.counts), "before": versions.before if versions else None, "versions": made,
        "versions_have_others": versions.others if versions else "", "rows_from": one.origin, "unknown": one.unknown,
        "rows": [_row_facts(row, journal) for row in one.rows], "more_rows": one.more,
    }  # fmt: skip


def _row_facts(row: ChangedRow, journal: str) -> dict[str, Any]:
    place = {} if row.version is None else {"position": _position_text(row.version, journal)}
    time = {} if row.time is None else {"time": row.time.isoformat()}
    return {"kind": row.kind, "before": plain(row.before), "after": plain(row.after)} | place | time


def _position_text(version: int, journal: str) -> str:
    """Returns a version as a position, with journals named as `journal` is."""
    number, offset = split_version(version)
    base, _, digits = journal.rpartition(".")
    return f"{base}.{number:0{len(digits)}d}:{offset}"

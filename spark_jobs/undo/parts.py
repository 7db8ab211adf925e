"""Where the rows of a part of the past come from: the lake's past, the source's binlog, or the rows that a correction
noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cdc_core.errors import LakeError
from cdc_core.reread.binlog import BinlogReader
from spark_jobs.changes.columns import OP, UPDATE_BEFORE
from spark_jobs.lake.corrections import CorrectedTable, Corrections
from spark_jobs.lake.seen_columns import noted_rules
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.past.images import past_images
from spark_jobs.past.noted import Span
from spark_jobs.undo.plan import PastPart


def past_part(tables: ClientTables, table: str, span: Span, binlog: BinlogReader | None = None) -> PastPart:
    """Returns what a span changed in a table: by the lake, and where it cannot say that, by the `binlog`, if rules make
    no row of the table."""
    own = span.of_table(table)
    if own.is_whole and _cancel_out(own, table):  # then there is no commit
        return PastPart(span.epoch, own.start.version(), own.start.version(), "ledger", "", lambda: iter(()))
    past = past_images(tables, table, span)
    part = PastPart(span.epoch, own.start.version(), own.end.version(), past.origin, past.unknown, past.read)
    if past.origin != "none" or binlog is None:
        return part
    state = tables.lake.state(tables.path(table), "")
    if state is None or noted_rules(state):
        return part
    return PastPart(part.epoch, part.start, part.end, "binlog", "", _from_binlog(binlog, table, own))


def _cancel_out(span: Span, table: str) -> bool:
    """Whether the ledger says that nothing is left of the changes."""
    notes = [batch.notes[table] for batch in span.batches if table in batch.notes]
    return bool(notes) and not any(
        note.get("net_rows") or note.get("replayed") or note.get("stopped") for note in notes
    )


def _from_binlog(binlog: BinlogReader, table: str, span: Span) -> Callable[[], Iterator[pa.RecordBatch]]:
    def read() -> Iterator[pa.RecordBatch]:
        for one in binlog.transactions(span.begin or span.start, span.end, span.start):
            if table not in one.rows:
                continue
            left = one.rows[table].rows
            for batch in binlog.images(one, table):
                left -= batch.num_rows - pc.sum(pc.equal(batch.column(OP), UPDATE_BEFORE)).as_py()
                yield batch
            if left:
                hint = "Ask for fewer batches or tables, or restore the lake to a place before them."
                raise LakeError("a transaction has more rows than can be read at once", place=str(one.start), hint=hint)

    return read


def noted_part(corrections: Corrections, one: CorrectedTable) -> PastPart:
    """Returns what a correction changed in a table, at the place where the table was then. A copy at that place came
    later, and so did its rules."""
    epoch, at, number = one.counts["epoch"], one.counts["at"], one.correction.number

    def read() -> Iterator[pa.RecordBatch]:
        yield from corrections.rows(number, one.table).to_batches()

    return PastPart(epoch, at - 1, at, f"{one.correction.kind} {number}", "", read)

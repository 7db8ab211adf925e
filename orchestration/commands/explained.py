"""An explanation for people: of transactions, of versions of tables, of rows before and after, within 80 columns."""

from __future__ import annotations

import shutil
import sys
from datetime import datetime
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from cdc_core.reread.transaction import RowCounts, Transaction
from orchestration.commands.text import position, table, text
from spark_jobs.past.changed import shortened, value_text
from spark_jobs.past.explain import Explained, TableExplained
from spark_jobs.past.versions import MadeVersion

_ORIGINS = {"log": "the change log", "versions": "the table's versions", "binlog": "the source's binlog", "none": ""}
_TEXT = 300  # characters of a statement
_GTIDS = 120
_VERSIONS = 5


def show(found: Explained, limit: int) -> None:
    """Prints the explanation within the width of the terminal."""
    console = Console() if sys.stdout.isatty() else Console(width=shutil.get_terminal_size((80, 24)).columns)
    for line in _head(found):
        console.print(line)
    console.print(Text.assemble(("\nTransactions", "bold"), _of(found)))
    for one in found.transactions:
        console.print(_transaction(one))
    for each in found.tables:
        console.print()
        console.print(_table(each, limit))
    if found.left_out:
        console.print(Text(f"\n{found.left_out:,} further tables: name them, or give a larger --limit."))


def _head(found: Explained) -> list[Text]:
    span = found.span
    if found.narrowed:
        what = "one transaction"
    elif not span.batches:
        what = "a batch that is claimed and not acked"
    elif len(span.batches) == 1:
        what = f"batch {span.batches[0].number}"
    else:
        what = f"{len(span.batches):,} batches, {span.batches[0].number} to {span.batches[-1].number}"
    lines = [Text.assemble((what, "bold"), f", epoch {span.epoch}"), Text(f"  from  {span.start}\n  to    {span.end}")]
    if span.batches:
        last, rows = span.batches[-1], sum(one.rows for one in span.batches)
        count = sum(one.transactions for one in span.batches)
        of = f" of batch {last.number}" if found.narrowed else ""
        lines.append(Text(f"  rows {rows:,}, transactions {count:,}{of}"))
        if last.gtid:
            lines.append(Text(f"  GTIDs up to {shortened(last.gtid, _GTIDS)}"))
        lines += [Text(f"  in the lake at {_time(last.committed)}"), Text(f"  by run {last.run_id or '-'}")]
    return lines


def _of(found: Explained) -> str:
    unknown = found.transactions_unknown
    if not found.transactions:
        return f" unknown: {unknown}" if unknown else " none that changed captured tables"
    first = f", the first {len(found.transactions)}" if found.more_transactions else ""
    return f" by the source's binlog{first}{f'; {unknown}' if unknown else ''}"


def _transaction(one: Transaction) -> Padding:
    lines = [Text(f"{one.start} to {one.end.position if one.end else '?'}")]
    when = f"{_time(one.time)}, " if one.time else ""
    lines.append(Text(f"  {when}server {one.server_id}", "dim"))
    if one.gtid:
        lines.append(Text(f"  {one.gtid}", "dim"))
    lines += [Text(f"  {name}: {_counted(counts)}") for name, counts in one.rows.items()]
    lines += [Text(f"  {value_text(' '.join(words.split()), _TEXT)}", "cyan") for words in one.statements]
    if one.left_out:
        lines.append(Text(f"  {one.left_out:,} further statements", "dim"))
    return Padding(Group(*lines), (0, 0, 0, 2))


def _table(one: TableExplained, limit: int) -> Group:
    parts: list[Any] = [Text.assemble((one.table, "bold"), f": {_summed(one)}")]
    parts += [Text(f"  {line}") for line in _versions(one)]
    source = _ORIGINS[one.origin]
    lacks = "the lake does not show them" if one.origin == "binlog" else "not shown"
    unknown = f" ({lacks}: {one.unknown})" if one.unknown else ""
    parts.append(Text(f"  rows by {source}{unknown}" if source else f"  rows unknown: {one.unknown}", "dim"))
    if one.rows:
        shown = table(position(""), text("key"), text("columns"))
        shown.show_header = False
        for row in one.rows:
            words = (row.key_text(one.key), row.columns_text(one.key))
            shown.add_row(row.kind, *(Text(each, overflow="fold") for each in words))
        parts.append(Padding(shown, (0, 0, 0, 2)))
    if one.more:
        parts.append(Text(f"  and further rows: --limit is {limit}", "dim"))
    return Group(*parts)


def _versions(one: TableExplained) -> list[str]:
    if one.versions is None:
        return []
    made = one.versions.made
    lines = [_version(each) for each in made[:_VERSIONS]]
    further = len(made) - _VERSIONS
    return lines if further <= 0 else [*lines, f"and {further:,} further versions, up to {made[-1].version}"]


def _version(one: MadeVersion) -> str:
    if one.kind == "ddl":
        return f"version {one.version}: {value_text(one.text, _TEXT)}"
    inserted, updated, deleted = one.counts
    return f"version {one.version}, {one.kind}: rows inserted {inserted:,}, updated {updated:,}, deleted {deleted:,}"


def _summed(one: TableExplained) -> str:
    return ", ".join(f"{what} {one.counts.get(what, 0):,}" for what in ("inserts", "updates", "deletes"))


def _counted(counts: RowCounts) -> str:
    named = ((counts.inserts, "inserted"), (counts.updates, "updated"), (counts.deletes, "deleted"))
    return ", ".join(f"{what} {count:,}" for count, what in named if count)


def _time(moment: datetime) -> str:
    return moment.astimezone().isoformat(" ", "seconds")

"""Tables brought into the lake, or reloaded, while the stream goes on."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from cdc_core.schema.names import split_name
from orchestration.verbs.access import Access
from orchestration.verbs.copy import NOT_COPIED, outcome
from orchestration.verbs.orders import Snapshot
from orchestration.verbs.report import Done, Report
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied
from spark_jobs.snapshot.limits import Limits

_CANCELLED = {True: "its snapshot is cancelled; the lake's table is as it was", False: "has no open snapshot"}


def run(order: Snapshot, at: Access, report: Report) -> None:
    instance = at.instance
    with at.connect() as connector, at.sessions() as sessions:
        loader = Loader(connector, instance, at.lake, sessions, manner_of(order), at.run_id)
        work = _cancelled if order.cancel else _taken
        for table in order.tables or [one.name for one in connector.tables()]:
            report.each(table, partial(work, loader, table, report), otherwise=NOT_COPIED)


def manner_of(order: Snapshot) -> Manner:
    """How tables are read."""
    host, _, port = order.replica.rpartition(":")
    limits = Limits(order.rows_per_second, order.connections)
    return Manner(order.rows_per_chunk, limits, (host, int(port)) if host else None, order.read_on)


def progress(read: Read, seconds: float) -> str:
    """One line of how far a table is. The rate is that since this began, also where another had read some."""
    of = f" of about {read.of_rows:,}" if read.of_rows and read.of_rows > read.rows else ""
    rate = f", {round((read.rows - read.before) / seconds):,} rows/s" if seconds > 0 else ""
    return f"{read.table}: {read.rows:,}{of} rows in {read.chunks} chunks{rate}"


def _taken(loader: Loader, table: str, report: Report) -> Done:
    begun = time.monotonic()
    report.progress(f"{table}: waits for a place in the binlog")
    found = loader.table(
        *split_name(table), told=lambda read: report.progress(progress(read, time.monotonic() - begun))
    )
    done, seconds = outcome(found), max(time.monotonic() - begun, 0.001)
    if not isinstance(found, Copied):
        return done
    rate = round(found.rows / seconds)
    facts = {**done.facts, "seconds": round(seconds, 1), "rows_per_second": rate}
    return replace(done, text=f"{done.text}, {rate:,} rows/s", facts=facts)


def _cancelled(loader: Loader, table: str, _: Report) -> Done:
    was = loader.cancel(table)
    return Done(_CANCELLED[was], {"cancelled": was})

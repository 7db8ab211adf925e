"""Tables brought into the lake, or reloaded, while the stream goes on."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from functools import partial

from orchestration.verbs.access import Access
from orchestration.verbs.copy import NOT_COPIED, outcome
from orchestration.verbs.orders import Snapshot
from orchestration.verbs.report import Done, Report
from orchestration.verbs.waiting import report_waiting
from spark_jobs.expectations.expectation import NO_EXPECTATIONS
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner, Read
from spark_jobs.load.result import Copied
from spark_jobs.load.several import Loading, SoFar
from spark_jobs.snapshot.limits import Limits

_CANCELLED = {True: "its snapshot is cancelled; the lake's table is as it was", False: "has no open snapshot"}


def run(order: Snapshot, at: Access, report: Report) -> None:
    instance = at.instance
    with at.connect() as connector, at.sessions() as sessions:
        expected = at.declared.expected or NO_EXPECTATIONS
        manner, consents = manner_of(order), no_consent(at)
        loader = Loader(connector, instance, at.lake, sessions, manner, at.run_id, expected, consents)
        tables, begun = order.tables or [one.name for one in connector.tables()], time.monotonic()
        if order.cancel:
            for table in tables:
                report.each(table, partial(_cancelled, loader, table), otherwise=NOT_COPIED)
            return
        shown = lambda so_far: report.progress(progress(so_far, time.monotonic() - begun))  # noqa: E731
        for loading in report.during(loader.tables(tables, report=shown)):
            report.each(loading.name, partial(_taken, loader, loading, report), otherwise=NOT_COPIED)


def no_consent(at: Access) -> dict[str, str] | None:
    """A sensor's run is nobody's consent; a person's is, to what waits when it begins."""
    return {} if at.by_itself else None


def manner_of(order: Snapshot) -> Manner:
    """How tables are read."""
    host, _, port = order.replica.rpartition(":")
    limits = Limits(order.rows_per_second, order.connections)
    return Manner(order.rows_per_chunk, limits, (host, int(port)) if host else None, order.read_on)


def progress(so_far: SoFar, seconds: float) -> str:
    """Returns a line of how far all tables are, after so many seconds."""
    left = so_far.left(seconds)
    parts = [f"{so_far.tables:,} of {so_far.of_tables:,} tables", f"{so_far.rows:,} rows"]
    parts += [f"about {timedelta(seconds=round(left))} left"] if left is not None else []
    return ", ".join(parts) + (f"; {of_table(so_far.read, seconds)}" if so_far.read else "")


def of_table(read: Read, seconds: float) -> str:
    """Returns the same for one table. The rate counts only the rows that this run has read."""
    of = f" of about {read.of_rows:,}" if read.of_rows and read.of_rows > read.rows else ""
    rate = f", {round((read.rows - read.before) / seconds):,} rows/s" if seconds > 0 else ""
    return f"{read.table}: {read.rows:,}{of} rows in {read.chunks} chunks{rate}"


def _taken(loader: Loader, loading: Loading, report: Report) -> Done:
    begun = time.monotonic()
    found = loading.outcome()
    report_waiting(loader.connector, loader.lake, loading.name, report)
    done, seconds = outcome(found), max(time.monotonic() - begun, 0.001)
    if not isinstance(found, Copied):
        return done
    if loading.seconds is not None:  # many tables share this time: no rate of one
        return replace(done, facts={**done.facts, "seconds": round(loading.seconds, 1)})
    rate = round(found.rows / seconds)
    facts = {**done.facts, "seconds": round(seconds, 1), "rows_per_second": rate}
    return replace(done, text=f"{done.text}, {rate:,} rows/s", facts=facts)


def _cancelled(loader: Loader, table: str) -> Done:
    was = loader.cancel(table)
    return Done(_CANCELLED[was], {"cancelled": was})

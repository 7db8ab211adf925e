"""Reloads tables from the source, one after the other, each in one commit.

It may be killed and run again: a table is the old one or the new one, and another run begins with the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from cdc_core.client.connector import Connector
from cdc_core.errors import SluiceError
from cdc_core.schema.names import full_name, split_name
from orchestration.names import PLACE, place_text
from orchestration.verbs.access import Access
from orchestration.verbs.orders import Copy
from orchestration.verbs.report import Done, Report
from orchestration.verbs.waiting import report_waiting
from spark_jobs.expectations.expectation import NO_EXPECTATIONS
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner
from spark_jobs.load.result import Copied, NoSuchTable

NOT_COPIED = {"copied": False}  # facts of a table that was not copied


def run(order: Copy, at: Access, report: Report) -> None:
    with at.connect() as connector, opened_loader(at, connector, order.read_on) as loader:
        for table in order.tables:
            report.each(table, partial(reloaded, loader, table, report), otherwise=NOT_COPIED)


@contextmanager
def opened_loader(at: Access, connector: Connector, read_on: str = "driver") -> Iterator[Loader]:
    """Yields the loader, which reads tables in this process, or where `read_on` says. It has a person's consent to
    all that waits for one now. Raises ConfigError when the source's configuration is unknown."""
    instance = at.instance
    with at.sessions() as sessions:
        expected = at.declared.expected or NO_EXPECTATIONS
        loader = Loader(connector, instance, at.lake, sessions, Manner(read_on=read_on), at.run_id, expected)
        with suppress(SluiceError):  # each table says so
            loader = loader.begun()
        yield loader


def reloaded(loader: Loader, table: str, report: Report) -> Done:
    """Reloads a table and ends its stop. Raises what `Loader.copy` raises."""
    return outcome(read(loader, table, report))


def read(loader: Loader, table: str, report: Report) -> Copied | NoSuchTable:
    """Reloads a table and ends its stop. Returns what the loader found."""
    report.progress(f"{table}: waits for a place in the binlog")
    found = loader.copy(*split_name(table), report=lambda read: report.progress(f"{table}: {read.rows:,} rows so far"))
    report_waiting(loader.connector, loader.lake, table, report)
    return found


def outcome(found: Copied | NoSuchTable) -> Done:
    """Returns the report of a table that was read from the source."""
    place = found.place
    where: dict[str, Any] = {"position": str(place.low), "high": str(place.high)}
    if isinstance(found, NoSuchTable):
        name = full_name(found.database, found.table)
        text = (
            f"the source has no table {name} at {place.low}; nothing was written. Correct the name. A table that was "
            "dropped keeps its rows in the lake, and its stop until `sluice ddl approve`."
        )
        return Done(text, NOT_COPIED | where, good=False)
    facts = {"copied": True, "rows": found.rows, "delta_version": found.delta_version} | where
    bad = sum(one.bad for one in found.expected)
    facts |= {"bad_rows": bad} if found.expected else {}
    facts |= {PLACE: place_text(*found.exact)} if found.exact else {}
    failing = f", of which {bad:,} fail what is expected" if bad else ""
    return Done(f"{found.rows:,} rows as of {place.low}{failing}", facts, reloaded=True)

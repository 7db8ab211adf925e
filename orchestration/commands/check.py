"""`sluice check`: what Spark's executors have and reach of what a destination needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console

from cdc_core.client.changes import RowsDoor
from cdc_core.errors import SessionError, SluiceError
from orchestration.commands.found import show
from orchestration.verbs.access import Access
from spark_jobs.check.cluster import checked
from spark_jobs.check.findings import Finding
from spark_jobs.check.ruled import ruled
from spark_jobs.check.united import united
from spark_jobs.snapshot.source import captured_source


def run(at: Access, *, as_json: bool) -> int:
    """Prints the findings. Returns 1 when something is wrong. Raises SluiceError if nothing can be looked at."""
    console = Console()
    with console.status("the executors are asked"):
        found = list(looked(at))
    if as_json:
        print(json.dumps([asdict(one) | {"good": one.good} for one in found]))
    else:
        show(console, found)
    return 0 if all(one.good for one in found) else 1


def looked(at: Access) -> Iterator[Finding]:
    """Yields the findings of the service, of the rules that it keeps and of unions, then of Spark and its executors."""
    door, source = None, ""
    try:
        door, source = _service(at)
    except SluiceError as error:
        place = error.place or at.destination
        yield Finding("the service", (place,), f"{error.message}; its door and source were not tried", error.hint)
    if door:
        yield from _rules(at)
    yield from united(at.lake, at.destination)
    with at.sessions() as sessions, sessions.take() as spark:
        yield from checked(spark, at.lake, door, source)


def _service(at: Access) -> tuple[RowsDoor, str]:
    """The Flight door, and where MySQL is. Raises SluiceError."""
    with at.connect() as connector:
        return connector.rows_door, captured_source(at.instance, connector.status().source).address


def _rules(at: Access) -> Iterator[Finding]:
    """Yields the rules that fit no captured table, and the tables that they see in another way than the lake has them.
    Raises SluiceError."""
    with at.connect() as connector:
        try:
            rules = connector.rules()
        except SessionError:  # the client is not subscribed: it has none yet
            return
        tables = connector.tables()
    for one in rules.idle(schema.name for schema in tables) if rules else []:
        remedy = (
            "Correct its name (`rules` in defs.yaml), unless the table is still to come. Until then it hides nothing."
        )
        yield Finding("the rules", (one,), "no captured table has this name", remedy)
    yield from ruled(at.lake, at.destination, rules, tables)

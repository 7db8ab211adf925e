"""`sluice check`: what Spark's executors have and reach of what a destination needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from cdc_core.client.changes import RowsDoor
from cdc_core.errors import SluiceError
from orchestration.commands.text import table, text
from orchestration.source import source_of
from orchestration.verbs.access import Access
from spark_jobs.check.cluster import checked
from spark_jobs.check.findings import Finding

_SHOWN = 4  # hosts that are named


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
    """Yields the findings of the service, then of Spark and its executors."""
    door, source = None, ""
    try:
        door, source = _service(at)
    except SluiceError as error:
        place = error.place or at.destination
        yield Finding("the service", (place,), f"{error.message}; its door and source were not tried", error.hint)
    with at.sessions() as sessions, sessions.take() as spark:
        yield from checked(spark, at.lake, door, source)


def _service(at: Access) -> tuple[RowsDoor, str]:
    """The Flight door, and where MySQL is. Raises SluiceError."""
    with at.connect() as connector:
        return connector.rows_door, source_of(at.instance, connector).address


def show(console: Console, found: Sequence[Finding]) -> None:
    """Prints a table, and how to mend what is wrong."""
    columns = table(text(""), text("what"), text("where"), text("found"))
    for one in found:
        mark = Text("✓", "green") if one.good else Text("✗", "red")
        columns.add_row(mark, one.what, _hosts(one.where), Text(one.found, "" if one.good else "red"))
    console.print(columns)
    for one in found:
        if not one.good:
            console.print(Text.assemble((f"{one.what}: ", "bold"), one.remedy), soft_wrap=True)


def _hosts(where: Sequence[str]) -> str:
    more = len(where) - _SHOWN
    return ", ".join(where[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

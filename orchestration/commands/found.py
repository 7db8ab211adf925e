"""Prints the findings of a check with their remedies."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from orchestration.commands.text import table, text
from spark_jobs.check.findings import Finding

_SHOWN = 4  # hosts that are named


def show(console: Console, found: Sequence[Finding]) -> None:
    """Prints a table, and how to mend what is wrong. Warnings have a mark of their own."""
    columns = table(text(""), text("what"), text("where"), text("found"))
    for one in found:
        mark, color = ("✗", "red") if not one.good else ("!", "yellow") if one.warning else ("✓", "green")
        columns.add_row(Text(mark, color), one.what, _hosts(one.where), Text(one.found, "" if mark == "✓" else color))
    console.print(columns)
    for one in found:
        if not one.good:
            console.print(Text.assemble((f"{one.what}: ", "bold"), one.remedy), soft_wrap=True)


def _hosts(where: Sequence[str]) -> str:
    more = len(where) - _SHOWN
    return ", ".join(where[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

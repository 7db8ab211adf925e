"""What the commands print for people. A binlog position is never cut or folded, so that it can be copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from cdc_core.errors import SluiceError
from cdc_core.position import EntryPosition


def table(*columns: Column) -> Table:
    """An empty table without lines. In a narrow terminal everything folds but positions."""
    return Table(*columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)


def text(name: str) -> Column:
    return Column(name, overflow="fold")


def position(name: str) -> Column:
    return Column(name, no_wrap=True)


def number(name: str) -> Column:
    return Column(name, justify="right", overflow="fold")


def position_from(fields: Mapping[str, Any] | None) -> EntryPosition | None:
    """A position in the service's JSON."""
    return None if fields is None else EntryPosition.from_dict(dict(fields))


def place(at: EntryPosition | None) -> str:
    """`mysql-bin.000003:9000`, or a dash."""
    return "-" if at is None else str(at)


def print_error(console: Console, destination: str, error: SluiceError) -> None:
    """Prints the error of a destination: message, place and hint."""
    console.print(Text.assemble((destination, "red"), f": {error.message}"), soft_wrap=True)
    if error.place:
        console.print(Text(f"   at: {error.place}"), soft_wrap=True)
    console.print(Text(f" hint: {error.hint}"), soft_wrap=True)

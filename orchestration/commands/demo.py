"""`sluice demo`: runs the demo and prints what came of it."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestration.stack.demo import Demo, Figures, running
from orchestration.stack.ports import Ports
from orchestration.stack.progress import Progress


def run(ports: Ports, rate: float, seconds: float, *, once: bool, as_json: bool) -> int:
    """0 when source and lake are the same."""
    progress = Progress(quiet=as_json)
    console = Console(quiet=as_json)
    figures: Figures | None = None
    try:
        with running(ports, rate, progress) as demo:
            demo.load(seconds)
            demo.drain()
            compared = demo.verify()
            figures = demo.figures(compared)
            _print(console, demo, compared, figures)
            if not once:
                console.print(f"The workload goes on at {demo.rate:.0f} rows/s. Ctrl-C stops everything.")
                demo.stay()
    except KeyboardInterrupt:
        if figures is None:
            raise
    if once or as_json:
        print(json.dumps(figures.as_dict()), flush=True)
    return 1 if figures.differences else 0


def _print(console: Console, demo: Demo, compared: list[dict[str, Any]], figures: Figures) -> None:
    console.print(comparison(compared))
    console.print(
        f"{figures.rows} rows in {figures.batches} batches; freshness (commit at the source to visible in Delta): "
        f"p50 {figures.freshness_p50_s} s, p95 {figures.freshness_p95_s} s"
    )
    console.print(f"Dagster: {demo.dagster.url}   service: {demo.service.url}/   lake: {demo.lake}", soft_wrap=True)


def comparison(compared: list[dict[str, Any]]) -> Table:
    """Source against lake, for people."""
    table = Table(title="source and lake at one position", title_justify="left")
    table.add_column("table")
    for name in ("source rows", "lake rows", "missing", "extra", "different"):
        table.add_column(name, justify="right")
    for row in compared:
        wrong = row["missing"] + row["extra"] + row["different"]
        counts = [str(row[key]) for key in ("source_rows", "lake_rows", "missing", "extra", "different")]
        table.add_row(row["table"], *counts, style="red" if wrong else None)
    return table

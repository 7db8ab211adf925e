"""`sluice demo`: runs the demo and prints its figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from orchestration.demo.demo import Demo, Figures, running
from orchestration.stack.ports import Ports
from orchestration.stack.progress import Progress
from orchestration.stack.spark import SPARK_PORT

if TYPE_CHECKING:
    from spark_jobs.verify.verified import Verified


def run(ports: Ports, rate: float, seconds: float, *, once: bool, warm: bool, as_json: bool) -> int:
    """0 when source and lake are equal. Returns after the comparison with `once`, else after Ctrl-C."""
    progress = Progress(quiet=as_json)
    console = Console(quiet=as_json)
    figures: Figures | None = None
    try:
        with running(ports, rate, progress, warm=warm) as demo:
            demo.load(seconds)
            demo.drain()
            compared = demo.verify()
            figures = demo.figures(compared)
            _show(console, demo, compared, figures)
            if not once:
                console.print(f"The workload goes on at {demo.rate:.0f} rows/s. Ctrl-C stops everything.")
                demo.stay()
    except KeyboardInterrupt:
        if figures is None:
            raise
    if once or as_json:
        print(json.dumps(figures.as_dict()), flush=True)
    return 1 if figures.differences else 0


def _show(console: Console, demo: Demo, compared: list[Verified], figures: Figures) -> None:
    from orchestration.verbs.verify import text

    for found in compared:
        console.print(Text(f"{found.table}: {text(found)}", "red" if found.differences else ""))
    console.print(
        f"{figures.rows} rows in {figures.batches} batches; freshness (commit at the source to visible in Delta): "
        f"p50 {figures.freshness_p50_s} s, p95 {figures.freshness_p95_s} s"
    )
    console.print(f"Dagster: {demo.dagster.url}   service: {demo.service.url}/   lake: {demo.lake}", soft_wrap=True)
    where = "" if demo.spark.remote.endswith(f":{SPARK_PORT}") else f" --spark {demo.spark.remote}"
    command = f'.venv/bin/sluice sql "SELECT * FROM shop.orders"{where}'  # noqa: S608 - text for people
    console.print(f"Rows, in another terminal: {command}", soft_wrap=True)

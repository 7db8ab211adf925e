"""`sluice drain`: what waits for a destination is claimed, applied and acked, without Dagster's processes."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from typing import Any

from orchestration.draining import DrainedBatch, DrainedRun, drain


class _ErrorStream:
    """What the run says to people, apart from its results."""

    def info(self, text: str, /) -> None:
        """A batch has its line, and so has the end."""

    def warning(self, text: str, /) -> None:
        print(f"warning: {text}", file=sys.stderr, flush=True)

    def error(self, text: str, /) -> None:
        print(f"error: {text}", file=sys.stderr, flush=True)


def run(destination: str, *, as_json: bool, **asked: Any) -> int:
    """Prints a line for each batch, then what is red and a sum. Returns 1 when a check failed. Raises SluiceError."""
    done = drain(destination, on_batch=partial(_show_batch, as_json=as_json), log=_ErrorStream(), **asked)
    if as_json:
        print(json.dumps(asdict(done)), flush=True)
    else:
        _show(done)
    return 1 if done.errors else 0


def _show_batch(one: DrainedBatch, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(one)), flush=True)
        return
    size = f"{one.rows:,} rows of {len(one.tables):,} tables"
    print(f"batch {one.batch_id}: {size} in {one.seconds:.1f} s, {one.start} to {one.end}", flush=True)


def _show(done: DrainedRun) -> None:
    for one in done.checks:
        print(f"{'warning' if one.warns else 'failed'}: {one.table}: {one.check}: {one.text}", flush=True)
    print(f"{done.batches:,} batches, {done.rows:,} rows", flush=True)

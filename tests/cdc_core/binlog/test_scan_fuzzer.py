"""A run of the coverage-guided fuzzer, and its findings so far."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.target import EVENTS, STREAM, attempt, seeds

FINDINGS = sorted((Path(__file__).parents[2] / "fixtures" / "crashes").iterdir())


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_compiled_code_handles_every_finding(finding: Path) -> None:
    """Compiled code handles every finding."""
    attempt(finding.read_bytes())


def test_it_starts_from_transactions_that_decode() -> None:
    """The seeds decode, so the fuzzer need not discover what an event is."""
    told = [attempt(seed) for seed in seeds()]
    assert sum(any("captured." in line and "Error" not in line for line in lines) for lines in told) > 100
    assert {seed[:1] for seed in seeds()} == {EVENTS, STREAM}


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed: make fuzz does it")
@pytest.mark.parametrize("runs", [1000, pytest.param(15_000, marks=[pytest.mark.full, pytest.mark.in_turn])])
def test_a_run_finds_nothing(runs: int) -> None:
    """The seed and the number of inputs are fixed, so each run is the same."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.scan_fuzzer", "-seed=1", f"-runs={runs}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]

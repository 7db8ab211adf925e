"""The coverage-guided fuzzer for a short while, and what it has found so far."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.target import EVENTS, STREAM, attempt, seeds

FINDINGS = sorted((Path(__file__).parent / "fixtures" / "crashes").iterdir())


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_what_was_found_is_mended(finding: Path) -> None:
    """Also in compiled code."""
    attempt(finding.read_bytes())


def test_it_starts_from_transactions_that_decode() -> None:
    """Else it would have to find out itself what an event is."""
    told = [attempt(seed) for seed in seeds()]
    assert sum(any("captured." in line and "Error" not in line for line in lines) for lines in told) > 100
    assert {seed[:1] for seed in seeds()} == {EVENTS, STREAM}


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed: make fuzz does it")
def test_a_short_run_finds_nothing() -> None:
    """Always the same run: its seed is fixed, and so is the number of attempts."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.scan_fuzzer", "-seed=1", "-runs=8000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]

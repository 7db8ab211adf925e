"""Random parts killed at random moments while the source is written to."""

from __future__ import annotations

import os
import random
import secrets
import time

import pytest

from tests.faults.stack import PARTS, Stack

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.full, pytest.mark.timeout(1200)]

SECONDS = 60.0


def test_random_kills_under_a_live_workload(stack: Stack) -> None:
    """In the end the lake is as the source, whatever the order. SLUICE_FAULT_SEED repeats a run."""
    seed = int(os.environ.get("SLUICE_FAULT_SEED") or secrets.randbelow(1_000_000))
    print(f"SLUICE_FAULT_SEED={seed}")
    rng, began = random.Random(seed), time.monotonic()
    stack.bank.start()
    try:
        while time.monotonic() < began + SECONDS:
            time.sleep(rng.uniform(1, 10))
            part, away = rng.choice(PARTS), rng.uniform(0, 4)
            print(f"{time.monotonic() - began:.1f} s: kill {part}, start it {away:.1f} s later")
            stack.kill(part)
            time.sleep(away)
            stack.restart(part)
    finally:
        stack.bank.stop()

    assert stack.differences(600) == []
    print(f"{stack.bank.transactions} transactions, {len(stack.runs())} runs")

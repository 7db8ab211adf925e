"""Damaged streams of real events give an error with its place, or sound batches. Nothing else may happen."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_core.errors import SourceUnavailable
from tests.fixtures.captured import NAMES, Captured, captured
from tests.support.damage import chosen, damaged, stream
from tests.support.decoding import decoded, rows_left
from tests.support.fuzzing import outcome, streams
from tests.support.harmless import touched

SEED, STREAMS = 20260, 1500
usual = settings(deadline=timedelta(seconds=10), derandomize=True, suppress_health_check=[HealthCheck.too_slow])
randoms = st.randoms(use_true_random=False)
uncompiled = pytest.mark.skipif(os.environ.get("NUMBA_BOUNDSCHECK") == "1", reason="compiles nothing")


@settings(usual, max_examples=600)
@given(st.sampled_from(NAMES), randoms)
def test_damage_is_an_error_with_its_place_or_sound_batches(name: str, rng: Random) -> None:
    """Bytes flipped, cut, added, removed; wrong lengths, types and counts; past the checksums and inside payloads."""
    log = captured(name)
    outcome(damaged(rng, log), log)


@settings(usual, max_examples=300)
@given(st.sampled_from(NAMES), randoms, st.integers(19, 700))
def test_the_size_of_blocks_changes_nothing(name: str, rng: Random, block_bytes: int) -> None:
    """Blocks may be smaller than an event. Of two faults either may be reported first, since payloads are opened by
    block."""
    log = captured(name)
    sent = damaged(rng, log)
    usually, then = outcome(sent, log), outcome(sent, log, block_bytes)
    assert usually == then or (_is_error(usually) and _is_error(then))


def _is_error(told: list[str]) -> bool:
    """One that ended all, not one table."""
    return len(told) == 1 and re.match(r"\w+: ", told[0]) is not None


@settings(usual, max_examples=200)
@given(st.sampled_from(NAMES), randoms)
def test_what_rows_do_not_depend_on_changes_none(name: str, rng: Random) -> None:
    """Spare bits, extra data, GTIDs, texts, unknown fields and ignorable events change no row."""
    log = captured(name)
    events = chosen(rng, log)
    assert _rows(touched(rng, events), log) == _rows(events, log)


def _rows(events: list[bytes], log: Captured) -> object:
    sent = stream(events, checksum=log.checksum, opening=log.events[0])
    with suppress(SourceUnavailable):  # an XA COMMIT whose rows are not among the events
        return rows_left(decoded(sent, log.resolve, checksum=log.checksum, journal=log.journal))
    return None


@uncompiled
def test_events_cut_anywhere_are_never_read_beyond_their_end() -> None:
    """Each real event is cut at each byte and read by uncompiled kernels: see `every_cut`."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.every_cut"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 5000


@uncompiled
def test_uncompiled_kernels_never_leave_their_arrays_and_agree() -> None:
    """The kernels as plain Python, where no index may be out of bounds, give the same errors and the same rows."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.fuzzing", str(SEED), str(STREAMS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]

    guarded = [ast.literal_eval(line) for line in done.stdout.splitlines()]
    assert guarded == [outcome(sent, log) for log, sent in streams(SEED, STREAMS)]

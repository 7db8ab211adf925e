"""Compiled code with the bounds checks of numba.

Compiling every kernel again with the checks takes 25 s on two cores, so the fast tests of the decoder run that way as a
whole. The checks allow negative indices; `test_fuzz` looks for those in uncompiled kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cdc_core.compiled.memory import little

CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
TESTS = ("bounds", "fixtures", "fuzz", "framing", "annotate", "rows", "columns", "net", "payload", "compressed")


@pytest.mark.skipif(not CHECKED, reason="the test below runs it")
def test_bounds_are_checked() -> None:
    """Without the checks this reads what happens to follow the array."""
    with pytest.raises(IndexError):
        little(np.zeros(2, np.uint8), 0, 3)


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.skipif(CHECKED, reason="that would not end")
def test_the_decoders_tests_pass_with_bounds_checks(tmp_path: Path) -> None:
    """They run in another process with its own cache, since numba would load what was compiled without the checks."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    here = Path(__file__).parents[1]
    files = [str(found) for name in TESTS for found in here.glob(f"*/test_{name}.py")]
    assert len(files) == len(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not integration", *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)

    assert done.returncode == 0, done.stdout[-3000:]
    assert any(tmp_path.rglob("*.nbc"))

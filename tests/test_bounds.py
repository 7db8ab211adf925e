"""Compiled code with numba's checks of bounds.

Measured on two cores: compiling every kernel anew with the checks takes 25 s, so the fast tests of the decoder run in
full that way. What those checks let pass, negative indices, `test_fuzz` looks for in uncompiled kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cdc_core.binlog.images import little

CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
TESTS = ("bounds", "fixtures", "fuzz", "framing", "annotate", "rows", "columns", "net", "payload", "compressed")


@pytest.mark.skipif(not CHECKED, reason="the test below runs it")
def test_bounds_are_checked() -> None:
    """Without the checks this reads what happens to stand behind the array."""
    with pytest.raises(IndexError):
        little(np.zeros(2, np.uint8), 0, 3)


@pytest.mark.skipif(CHECKED, reason="that would not end")
def test_the_decoders_tests_pass_with_bounds_checks(tmp_path: Path) -> None:
    """In a process of its own, with a cache of its own: numba would take what was compiled without them."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    files = [str(Path(__file__).with_name(f"test_{name}.py")) for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not integration", *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=280)

    assert done.returncode == 0, done.stdout[-3000:]
    assert any(tmp_path.rglob("*.nbc"))

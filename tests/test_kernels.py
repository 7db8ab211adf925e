"""Tests of cdc_core.kernels."""

from __future__ import annotations

import os
from pathlib import Path

from cdc_core.kernels import forget_stale


def test_compiled_code_older_than_a_source_is_dropped(tmp_path: Path) -> None:
    """A change of any source of the package drops what was compiled before it, and nothing newer."""
    cache = tmp_path / "columns" / "__pycache__"
    cache.mkdir(parents=True)
    source, old, new = tmp_path / "helper.py", cache / "old.nbi", cache / "new.nbc"
    for path, age in ((old, 100), (source, 200), (new, 300)):
        path.touch()
        os.utime(path, (age, age))

    forget_stale(tmp_path)

    assert not old.exists()
    assert new.exists()

"""What Sluice uses of Dagster that is not public is in one module."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_IMPORT = re.compile(r"^\s*(?:from|import) dagster\w*\.(?:\w+\.)*_", re.MULTILINE)
_NAME = re.compile(r"dagster\w*\.(?:\w+\.)*_\w+")


def test_private_names_of_dagster_are_in_one_module() -> None:
    """Two more files name modules in texts: what a dagster.yaml says, and what a process imports beforehand."""
    files = [
        path for room in ("orchestration", "spark_jobs", "cdc_core", "scripts") for path in (ROOT / room).rglob("*.py")
    ]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}

    assert [name for name, text in texts.items() if _IMPORT.search(text)] == ["orchestration/internals.py"]
    assert {name for name, text in texts.items() if _NAME.search(text)} == {
        "orchestration/internals.py",
        "orchestration/stack/preloaded.py",
        "orchestration/stack/instance.py",
    }

"""Which tests run, and which run once more: the cases in turn, and `scripts/test`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--all", action="store_true")
"""
_ONCE = """
from pathlib import Path

def test_first():
    seen = Path("seen")
    there = seen.exists()
    seen.touch()
    assert there
"""
_APART = """
import os
import pytest

@pytest.mark.parametrize("name", [os.environ["PYTEST_XDIST_WORKER"]])
def test_apart(name): ...
"""


def test_the_cases_in_turn_are_those_of_every_process() -> None:
    """Whatever order its sets have: the processes of a run must read the same tests."""
    program = "from tests.support.marks import in_turn; print(in_turn([{'a', 'b', 'c'}, {'d'}, {'e'}, len]))"
    found = set[str]()
    for seed in range(3):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        printed = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, env=environment, text=True)
        found.add("".join(sorted(printed)))
    assert len(found) == 1


def test_what_failed_runs_once_more(tmp_path: Path) -> None:
    """A test that passes then is named, and the run has passed."""
    code, printed = _run(tmp_path, test_busy=_ONCE)
    assert code == 0
    assert printed.count("test session starts") == 2
    assert printed.endswith("Each needs a mend:\n  test_busy.py::test_first\n")


def test_processes_that_read_other_tests_fail_the_run(tmp_path: Path) -> None:
    """At once: no test failed, so a second run would be of all tests, in one process, and take hours."""
    code, printed = _run(tmp_path, "-n", "2", test_apart=_APART)
    assert "Different tests were collected" in printed
    assert code == 1
    assert printed.count("test session starts") == 1


def _run(folder: Path, *options: str, **modules: str) -> tuple[int, str]:
    (folder / "conftest.py").write_text(_CONFTEST)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    command = [ROOT / "scripts" / "test", sys.executable, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout

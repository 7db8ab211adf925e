"""The rules of the test suite itself, read from its source."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parent
MODULES = set(TESTS.rglob("test_*.py"))


def test_every_test_says_what_holds() -> None:
    """Each test has a docstring, and each module and folder says what is tested there."""
    silent: list[str] = []
    for path in [*MODULES, *TESTS.rglob("__init__.py")]:
        tree = ast.parse(path.read_text())
        tests = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and path in MODULES)
        missing = [node.name for node in tests if node.name.startswith("test_") and not ast.get_docstring(node)]
        silent += [f"{path.relative_to(TESTS)}: {name}" for name in [""] * (not ast.get_docstring(tree)) + missing]
    assert silent == []


def test_no_test_module_imports_another() -> None:
    """Helpers of several modules live in tests/support."""
    imports = [
        f"{path.relative_to(TESTS)}: {node.module}"
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests.")
        if node.module.rpartition(".")[2].startswith(("test_", "conftest"))
    ]
    assert imports == []


def test_properties_run_daily_and_what_kills_every_other_day() -> None:
    """Neither the suites of chaos and states nor a property waits for its turn, and what kills waits for a day."""
    waiting: list[str] = []
    for path in MODULES:
        text = path.read_text()
        anew, kills = {"chaos", "stateful"} & {*path.parts}, "pytest.mark.fault" in text
        for node in (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)):
            marks = {*map(ast.unparse, node.decorator_list)}
            if not (turns := {mark for mark in marks if mark.startswith("pytest.mark.in_turn")}):
                continue
            source = ast.unparse(node)  # with its decorators
            killing = kills or any(word in source for word in (".kill(", "SIGKILL", "Killed"))
            if anew or "@given(" in source or (killing and turns != {"pytest.mark.in_turn(2)"}):
                waiting.append(f"{path.relative_to(TESTS)}: {node.name}")
    assert waiting == []

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


def test_no_test_that_kills_or_draws_waits_for_its_turn() -> None:
    """The suites of kills, faults, states and properties run whole every day, as does each other test that kills a
    process or draws at random."""
    waiting: list[str] = []
    for path in MODULES:
        text = path.read_text()
        whole = {"faults", "chaos", "stateful"} & {*path.parts} or "pytest.mark.fault" in text
        for node in (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)):
            source = ast.unparse(node)  # with its decorators
            kills_or_draws = any(word in source for word in ("@given(", ".kill(", "SIGKILL", "Random("))
            if "pytest.mark.in_turn" in map(ast.unparse, node.decorator_list) and (whole or kills_or_draws):
                waiting.append(f"{path.relative_to(TESTS)}: {node.name}")
    assert waiting == []

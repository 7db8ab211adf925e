"""The rules of the test suite itself, read from its source."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parent
MODULES = sorted(TESTS.rglob("test_*.py"))


def test_every_test_says_what_holds() -> None:
    """Each test has a docstring, and each module and folder says what is tested there."""
    silent = [
        f"{path.relative_to(TESTS)}: {node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    files = [*MODULES, *TESTS.rglob("__init__.py")]
    assert silent == []
    assert [str(path) for path in files if not ast.get_docstring(ast.parse(path.read_text()))] == []


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

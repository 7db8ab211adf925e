"""The rules of the test suite itself, read from its source."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parent
MODULES = sorted(TESTS.rglob("test_*.py"))
CONTRIBUTING = (TESTS.parent / "CONTRIBUTING.md").read_text()


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


def test_what_runs_under_all_alone_is_listed() -> None:
    """CONTRIBUTING.md names the module, or the folder, of everything that is marked or drawn larger there."""
    words = ("pytest.mark.full", "mostly_full", "full: bool")
    larger = [
        path for path in MODULES if path.name != Path(__file__).name and any(w in path.read_text() for w in words)
    ]
    assert larger
    listed = CONTRIBUTING.partition("### What runs under `ALL=1` alone")[2]
    assert [
        path.name for path in larger if path.name not in listed and f"tests/{path.parent.name}`" not in listed
    ] == []

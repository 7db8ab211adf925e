"""Rules for names, read from the source."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("package", ["cdc_core", "spark_jobs", "orchestration"])
def test_a_class_name_stands_for_one_thing(package: str) -> None:
    """No two classes of a package have the same name."""
    places = defaultdict(list)
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}

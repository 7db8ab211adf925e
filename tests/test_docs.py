"""The documentation says what is there: files, folders and names on its pages exist, and its links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BY_HAND = [page for page in PAGES if "reference" not in page.parts] + [ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
PACKAGES = ("cdc_core", "spark_jobs", "orchestration")
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(rf"^(?:{'|'.join(PACKAGES)}|tests|docs|scripts)/[\w./-]*$")
_NAME = re.compile(r"^([\w/]+\.py):(\w+(?:\.\w+)?)$")
_LINK = re.compile(r"\]\(([^)#:\s]+)(#[\w-]+)?\)|\]\((#[\w-]+)\)")


def _defined(file: Path) -> set[str]:
    """The names that a module defines at its top, and `Class.member`."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{member.name}" for member in node.body if isinstance(member, ast.FunctionDef)}
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def _rooms() -> set[str]:
    folders = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return {f"{folder.relative_to(ROOT)}/" for folder in folders} - {f"{package}/" for package in PACKAGES}


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {"#" + re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_and_names_on_a_page_exist(page: Path) -> None:
    """Each `folder/`, `folder/file.py` and `folder/file.py:name` in backticks."""
    for code in _CODE.findall(page.read_text()):
        if named := _NAME.match(code):
            assert named[2] in _defined(ROOT / named[1]), code
        elif _PATH.match(code):
            assert (ROOT / code).exists(), code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """To a file of the project, and to a title in it."""
    for target, anchor, here in _LINK.findall(page.read_text()):
        file = page.parent / target if target else page

        assert file.exists(), target
        if anchor or here:
            assert (anchor or here) in _anchors(file), f"{target}{anchor or here}"


@pytest.mark.parametrize("page", BY_HAND, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_wrapped(page: Path) -> None:
    """At 120 columns: not tables, words that are longer, nor indented or fenced code."""
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in prose.splitlines() if " " in line and not line.startswith(("|", "    "))]

    assert [line for line in lines if len(line) > 120] == []


def test_the_architecture_page_names_every_room() -> None:
    """A new folder needs its line; one that is gone must lose it."""
    named = {code for code in _CODE.findall((ROOT / "docs" / "architecture.md").read_text()) if code.endswith("/")}

    assert {code for code in named if _PATH.match(code)} == _rooms()


@pytest.mark.parametrize("room", sorted(_rooms()))
def test_every_room_says_what_it_is_for(room: str) -> None:
    """In one paragraph at the top of its `__init__.py`."""
    text = (ROOT / room / "__init__.py").read_text()

    assert ast.get_docstring(ast.parse(text)), room

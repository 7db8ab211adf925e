"""The documentation's site: its navigation has every page, and mkdocs builds it without a warning."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdc_core.errors import ErrorCode, SluiceError
from orchestration.alerts.kinds import Kind
from scripts import reference, site

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, in which one value is made by Python."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, suffix, _node: suffix)


def _pages(part: Any) -> Iterator[str]:
    """The pages of a part of the navigation, in its order."""
    if isinstance(part, str):
        yield part
    for one in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _pages(one)


def test_every_page_is_in_the_navigation_once() -> None:
    """A new page needs its line in mkdocs.yml, and a line needs its page."""
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)

    assert sorted(_pages(settings["nav"])) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def _first_cells(text: str) -> list[str]:
    """What is in backticks at the begin of each row of a page's tables."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def _errors(base: type[SluiceError]) -> Iterator[str]:
    for one in base.__subclasses__():
        if one.__module__ == SluiceError.__module__:
            yield one.__name__
            yield from _errors(one)


def test_the_handbook_has_every_error_and_alarm() -> None:
    """Each class and code of an error, and each kind of alert, has one line with meaning, cause and remedy."""
    errors, alarms = (DOCS / "handbook.md").read_text().split("## Alarms")

    assert sorted(_first_cells(errors)) == sorted({*ErrorCode, *_errors(SluiceError)})
    assert sorted(_first_cells(alarms)) == sorted(Kind)
    assert re.findall(r"\| *\|", errors + alarms) == []


@pytest.mark.parametrize("name", ["properties.md", "defs.md", "commands.md", "metrics.md"])
def test_the_reference_is_current(name: str) -> None:
    """It says what the models say; `python -m scripts.reference` writes it again."""
    assert (reference.FOLDER / name).read_text() == reference.pages()[name]


def test_every_key_has_its_meaning() -> None:
    """Each key of the properties files and of defs.yaml, and no key that does not exist."""
    properties = (reference.FOLDER / "properties.md").read_text()

    assert re.findall(r"^\| (`[^`]+`) .*\|  \|$", properties, re.MULTILINE) == []
    assert {key for key, _ in reference.defs_keys()} == set(reference.defs_texts())


@pytest.mark.in_turn
@pytest.mark.full
def test_the_site_is_built_strictly(tmp_path: Path) -> None:
    """Without a warning: links and anchors lead somewhere for mkdocs too. Skipped where it cannot be installed."""
    try:
        site.site_python()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"mkdocs cannot be installed: {error.stderr[-300:]}")

    done = site.build(tmp_path / "site")

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "site" / "index.html").exists()

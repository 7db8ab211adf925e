"""The documentation's site: its navigation has every page, and mkdocs builds it without a warning."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts import site

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

"""Environments that have what one extra brings, and nothing else: links into the tests' own environment.

What `pip install 'sluice-cdc[EXTRA]'` would bring is found by the metadata of the installed packages, so nothing is
downloaded, copied or compiled. The project itself is this checkout.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
_SITE = Path(sysconfig.get_path("purelib"))


class Environment:
    """`python` sees the packages of the extras, "" of none."""

    def __init__(self, folder: Path, extra: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.python = folder / "bin" / "python"
        self.packages = set(brought("sluice-cdc", frozenset([extra])))
        site = next(folder.glob("lib/python*/site-packages"))
        for path in links(self.packages):
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).symlink_to(_SITE / path)
        (site / "checkout.pth").write_text(f"{ROOT}\n")

    def run(self, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs its Python, without what the tests' own process has in its environment."""
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "COLUMNS": "200", **variables}
        return subprocess.run([self.python, "-B", *words], env=environment, capture_output=True, text=True, check=False)


@cache
def brought(name: str, extras: frozenset[str]) -> frozenset[str]:
    """Returns the names of a distribution and of all that it requires with these extras."""
    found: dict[str, set[str]] = {}
    waiting = [(canonicalize_name(name), set(extras) | {""})]
    while waiting:
        one, wanted = waiting.pop()
        new = wanted - found.setdefault(one, set())
        found[one] |= new
        for text in distribution(one).requires or () if new else ():
            need = Requirement(text)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in new):
                waiting.append((canonicalize_name(need.name), need.extras | {""}))
    return frozenset(found)


def links(names: set[str]) -> set[PurePosixPath]:
    """Returns the fewest files and folders of site-packages that are these distributions' alone."""
    owners, found = _owners(), set()
    for name in names - {"sluice-cdc"}:
        for path in _files(distribution(name)):
            whole = (PurePosixPath(*path.parts[: depth + 1]) for depth in range(len(path.parts)))
            found.add(next((one for one in whole if owners[one] <= names), path))
    return found


@cache
def _owners() -> Mapping[PurePosixPath, set[str]]:
    """Who has files in each folder."""
    found: dict[PurePosixPath, set[str]] = defaultdict(set)
    for one in distributions():
        name = canonicalize_name(one.metadata["Name"])
        for path in _files(one):
            for folder in (path, *path.parents):
                found[folder].add(name)
    return found


def _files(one: Distribution) -> Iterator[PurePosixPath]:
    for path in one.files or ():
        if ".." not in path.parts and "__pycache__" not in path.parts and len(path.parts):
            yield PurePosixPath(*path.parts)

"""Builds the documentation's site: `python -m scripts.site [FOLDER]`, into build/site without it.

mkdocs is in an environment of its own, which is made once: the extra `docs` of pyproject.toml with the versions of
constraints.txt. A link that leads nowhere, and a page that is not in the navigation, are errors.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from orchestration.stack.artifacts import prepare
from scripts.environment import make_environment

ROOT = Path(__file__).parents[1]
_CONSTRAINTS = ROOT / "constraints.txt"


def site_python() -> Path:
    """Return the Python that has mkdocs, and install both where they are not there yet. Raises CalledProcessError."""
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["docs"]
    pinned = "\n".join(packages) + _CONSTRAINTS.read_text()

    def fill(directory: Path) -> None:
        make_environment(directory, ["-c", str(_CONSTRAINTS), *packages])
        (directory / "made").touch()

    name = f"site-{hashlib.sha256(pinned.encode()).hexdigest()[:12]}"
    return prepare(name, "made", fill) / "bin" / "python"


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site into the folder. Exit code 1: something is wrong, which the error stream names."""
    command = [str(site_python()), "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def main() -> int:
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / "site"
    try:
        done = build(folder.absolute())
    except subprocess.CalledProcessError as error:
        print(f"site: mkdocs cannot be installed: {error.stderr[-500:]}", file=sys.stderr)
        return 1
    print(done.stderr or f"site: {folder / 'index.html'}", file=sys.stderr if done.stderr else sys.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

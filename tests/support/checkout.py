"""A clean checkout of this tree, without what was built or cached in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
_MADE = {"build", "dist", "artifacts", "metastore_db", "spark-warehouse", "__pycache__"}


def checked_out(folder: Path) -> Path:
    """Copies the files that git knows, or all but hidden and made ones where there is no repository."""
    for name in _names():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def _names() -> list[str]:
    known = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if known.returncode == 0 and known.stdout:
        return known.stdout.rstrip("\0").split("\0")
    tops = [one for one in ROOT.iterdir() if not one.name.startswith(".") and one.name not in _MADE]
    files = [file for top in tops for file in (top.rglob("*") if top.is_dir() else [top])]
    there = [file.relative_to(ROOT) for file in files if not _MADE & set(file.parts)]
    return [str(one) for one in there if not one.parts[0].endswith(".egg-info")]

"""Directories that are downloaded or initialised once and kept. Only one process at a time prepares a directory."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestration.stack.home import sluice_home


def artifacts_dir() -> Path:
    directory = sluice_home() / "artifacts"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def prepare(name: str, marker: str, fill: Callable[[Path], None]) -> Path:
    """The directory `name` with the file `marker` in it.

    `fill` gets an empty directory next to it, which is renamed afterwards: a half-filled directory is never used.
    """
    target = artifacts_dir() / name
    with locked(target):
        if not (target / marker).exists():
            with _scratch(target) as scratch:
                fill(scratch)
                shutil.rmtree(target, ignore_errors=True)
                scratch.rename(target)
    return target


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lets one process at a time into the block."""
    with path.with_name(path.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    scratch = target.with_name(f"{target.name}.tmp{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

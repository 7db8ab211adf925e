"""An archive of the classes that Spark loads (Java's class data sharing). A server that maps it needs a third less CPU
until its first MERGE.

`make setup` makes one, and removes those of jars that are no more; nothing else does. Without one, or with one that
does not fit, Java loads the classes from the jars, silently: it compares the class path, each jar's size and time, and
its own version.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from os import environ
from pathlib import Path

from orchestration.stack.artifacts import artifacts_dir, prepare
from spark_jobs.connect_server import spark_jars

_FILE, _MADE_OF, _PREFIX = "classes.jsa", "made_of", "spark-classes-"


def class_archive(delta: Path) -> Path | None:
    """The archive for Spark with Delta's jars in `delta`, if there is one."""
    archive = artifacts_dir() / _name(delta) / _FILE
    return archive if archive.is_file() else None


def make_class_archive(delta: Path, fill: Callable[[Path], None]) -> Path:
    """The archive, which `fill` writes to the path that it gets, unless there is one. Archives that nobody can use any
    more, of some 250 MB each, are removed."""

    def filled(directory: Path) -> None:
        (directory / _MADE_OF).write_text("\n".join(_depends_on(delta)))
        fill(directory / _FILE)

    made = prepare(_name(delta), _FILE, filled) / _FILE
    for said in artifacts_dir().glob(f"{_PREFIX}*/{_MADE_OF}"):
        lines = said.read_text().splitlines()
        if any(_line(Path(line.rsplit(" ", 2)[0])) != line for line in lines):
            shutil.rmtree(said.parent, ignore_errors=True)
    return made


def _name(delta: Path) -> str:
    """A name of its own for each Java and each content of the directories of jars."""
    text = "\n".join(_depends_on(delta))
    return f"{_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _depends_on(delta: Path) -> Iterator[str]:
    home = environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    for file in (java.resolve(), *sorted(delta.glob("*.jar")), *sorted(spark_jars().glob("*.jar"))):
        if line := _line(file):
            yield line


def _line(file: Path) -> str:
    """Return a text that changes with the content of the file, "" if there is no file."""
    if not file.is_file():
        return ""
    found = file.stat()
    return f"{file} {found.st_size} {found.st_mtime_ns}"

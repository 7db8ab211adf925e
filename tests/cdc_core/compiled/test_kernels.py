"""Tests of cdc_core.compiled: kernels on disk."""

from __future__ import annotations

import lzma
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_core.compiled import ahead, cache
from cdc_core.compiled.cache import runs_on

_CALLEE = """
import numpy as np
from numba import types
from cdc_core.compiled.kernel import helper, kernel

FACTOR = {factor}

@kernel(types.int64(types.int64))
def times(number):
    return number * {number}

@helper
def plus(number):
    return number + {number}
"""
_CALLER = """
from numba import types
from callee import FACTOR, plus, times
from cdc_core.compiled.kernel import kernel

@kernel(types.int64(types.int64))
def answer(number):
    return plus(times(number)) * FACTOR

print(answer(1), answer.stats.cache_hits)
"""

_PACK = """
from pathlib import Path
from cdc_core.compiled import ahead
print(ahead.pack(Path(), Path("kernels.xz")))
"""
_SHIPPED = """
from pathlib import Path
from cdc_core.compiled import cache
cache._AHEAD = Path("kernels.xz")
import caller
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "caller.py").write_text(_CALLER)
    return tmp_path


def start(
    program: Path, *, number: int = 2, factor: int = 10, at: float = 1e9, script: str = "caller.py"
) -> subprocess.Popen[str]:
    """A process that calls the kernel, from sources that were written at `at`."""
    (program / "callee.py").write_text(_CALLEE.format(number=number, factor=factor))
    os.utime(program / "callee.py", (at, at))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(program), str(Path.cwd())]), "NUMBA_CACHE_DIR": ""}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_DISABLE_JIT": "0"}
    command = [sys.executable, "-B", script]
    return subprocess.Popen(command, cwd=program, env=environment, stdout=subprocess.PIPE, text=True)


def printed(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return out.split(" ")[0] + (" cached" if "{(" in out or ": 1" in out else "")


def run(program: Path, **sources: float | str) -> str:
    return printed(start(program, **sources))  # type: ignore[arg-type]


def test_kernels_that_come_with_the_package_can_be_called(program: Path) -> None:
    """By Python itself, though the package has their machine code alone; nothing is compiled or written."""
    assert run(program) == "40"
    (program / "pack.py").write_text(_PACK)
    assert run(program, script="pack.py").strip() == "2"
    shutil.rmtree(program / "__pycache__")
    (program / "shipped.py").write_text(_SHIPPED)

    assert run(program, script="shipped.py") == "40 cached"
    assert not list(program.rglob("*.nb?"))


def test_a_kernel_is_loaded_while_nothing_that_it_is_made_of_changes(program: Path) -> None:
    """Not even its files' times matter: a checkout or an image may set any."""
    assert run(program) == "40"
    assert run(program) == "40 cached"
    assert run(program, at=2e9) == "40 cached"


@pytest.mark.in_turn
def test_a_kernel_is_compiled_again_when_its_callee_or_a_constant_changes(program: Path) -> None:
    """Also when these stand in another module, and when the sources are older than what was compiled."""
    assert run(program) == "40"
    assert run(program, number=3, at=1) == "60"
    assert run(program, number=3, factor=100, at=1) == "600"
    assert run(program, number=3, factor=100, at=1) == "600 cached"


@pytest.mark.in_turn
def test_earlier_forms_of_a_kernel_are_removed(program: Path) -> None:
    """A checkout that is worked on does not fill up."""
    for number in (2, 3, 4):
        run(program, number=number)

    assert len(list(program.glob("__pycache__/caller.answer-*.nbi"))) == 1
    assert len(list(program.glob("__pycache__/caller.answer-*.nbc"))) == 1


@pytest.mark.in_turn
def test_processes_may_start_side_by_side(program: Path) -> None:
    """They share the cache, and each gets the kernel of its own sources."""
    first = [start(program) for _ in range(3)]
    assert [printed(process).split()[0] for process in first] == ["40"] * 3

    assert run(program) == "40 cached"


def test_kernels_work_where_nothing_can_be_written(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only installation: the cache goes to the user's own directory."""
    (program / "__pycache__").write_text("in the way of a directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(program / "home"))

    assert run(program) == "40"
    assert run(program) == "40 cached"


def test_kernels_of_an_installed_package_go_to_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written into site-packages."""
    program = tmp_path / "lib" / "site-packages"
    program.mkdir(parents=True)
    (program / "caller.py").write_text(_CALLER)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))

    assert run(program) == "40"
    assert run(program) == "40 cached"
    assert sorted(file.name for file in program.iterdir()) == ["callee.py", "caller.py"]
    assert len(list((tmp_path / "home" / "sluice" / "kernels").rglob("*.nbi"))) == 2


def test_without_a_home_kernels_go_to_a_folder_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that others may write in, or that somebody else made, is not taken: what is loaded from there runs."""
    program = tmp_path / "site-packages"
    program.mkdir()
    (program / "caller.py").write_text(_CALLER)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/home")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    own = tmp_path / f"sluice-kernels-{os.geteuid()}"

    assert run(program) == "40"
    assert run(program) == "40 cached"
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    assert run(program) == "40"
    assert sorted(file.name for file in program.iterdir()) == ["callee.py", "caller.py"]


@pytest.mark.parametrize(
    ("needed", "runs"),
    [
        (("linux", "generic", "+avx,+avx2"), True),
        (("linux", "generic", "+avx,-avx512f"), True),
        (("linux", "generic", "+avx512f"), False),
        (("darwin", "generic", "+avx"), False),
    ],
)
def test_a_kernel_runs_where_its_instructions_are(needed: tuple[str, str, str], runs: bool) -> None:
    """The processor's name does not matter, nor what a kernel does without."""
    assert runs_on(needed, ("linux", "skylake", "+64bit,+avx,+avx2,-avx512f")) is runs


def test_a_damaged_file_of_kernels_counts_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is cut short, or changed: the kernels are compiled here."""
    kernels, whole = tmp_path / "kernels.xz", lzma.compress(pickle.dumps({"kernel": b"code"}))
    monkeypatch.setattr(cache, "_AHEAD", kernels)
    for found in (whole[:-1], whole[:20], whole[:40] + b"?" + whole[41:], b"", b"no archive"):
        kernels.write_bytes(found)
        assert cache._shipped.__wrapped__() == {}
    kernels.write_bytes(whole)
    assert cache._shipped.__wrapped__() == {"kernel": b"code"}


def test_all_modules_with_kernels_are_compiled_ahead() -> None:
    """In a new checkout `make setup` compiles them: the processes of a test run would each do it."""
    root = Path(ahead.__file__).parents[2]
    files = [file for package in ("cdc_core", "spark_jobs") for file in (root / package).rglob("*.py")]
    have = {file for file in files if re.search(r"^@kernel\(", file.read_text(), re.MULTILINE)}
    names = {".".join(file.relative_to(root).with_suffix("").parts) for file in have}
    assert "spark_jobs.verify.row_hash" in names
    assert {name for name in names - set(ahead.modules()) if not name.startswith("cdc_core.compiled")} == set()


def test_importing_the_package_touches_no_file() -> None:
    """Whatever lies in a cache directory stays there."""
    import cdc_core.compiled

    stale = Path(cdc_core.compiled.__file__).parent / "__pycache__" / "stale.nbi"
    stale.touch()
    try:
        subprocess.run([sys.executable, "-c", "import cdc_core.compiled.memory"], check=True)
        assert stale.exists()
    finally:
        stale.unlink()


def test_named_tuples_of_kernels_have_names_of_their_own() -> None:
    """Numba takes two of one name and shape for one: in a process with both, the kernels of one refuse their calls."""
    root = Path(__file__).parents[3]
    files = [file for package in ("cdc_core", "spark_jobs") for file in (root / package).rglob("*.py")]
    names = [name for file in files for name in re.findall(r"^class (\w+)\(NamedTuple\)", file.read_text(), re.M)]
    assert sorted(names) == sorted(set(names))

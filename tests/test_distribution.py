"""The wheel and the source distribution, built from a clean checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.checkout import checked_out

MOST_BYTES = 2_000_000
_SDIST = "import setuptools.build_meta as backend; backend.build_sdist({!r})"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git knows of this tree, without what was built or cached in it."""
    return checked_out(tmp_path_factory.mktemp("clean") / "checkout")


def built_wheel(source: Path, folder: Path, **environment: str) -> Path:
    """The wheel of a folder or of a source distribution, built with what is installed here."""
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet", "--wheel-dir", folder]
    command = [sys.executable, "-m", "pip", "wheel", *options, source]
    subprocess.run(command, check=True, cwd=folder.parent, env=os.environ | environment)
    (wheel,) = folder.glob("*.whl")
    return wheel


def contents(wheel: Path) -> set[str]:
    """The names of a wheel's files, without those that describe it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.mark.in_turn
@pytest.mark.full
def test_wheel_and_sdist_build_from_a_clean_checkout(checkout: Path, tmp_path: Path) -> None:
    """Each file of the packages is in the wheel, that of the sdist is the same, and neither has the tests."""
    folders = [tmp_path / name for name in ("sdist", "wheel", "again")]
    for folder in folders:
        folder.mkdir()
    command = [sys.executable, "-c", _SDIST.format(str(folders[0]))]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    (sdist,) = folders[0].glob("sluice_cdc-*.tar.gz")
    wheel = built_wheel(checkout, folders[1])

    packages = ("cdc_core", "orchestration", "spark_jobs")
    files = [file.relative_to(checkout) for one in packages for file in (checkout / one).rglob("*") if file.is_file()]
    assert wheel.name.startswith("sluice_cdc-")
    assert wheel.stat().st_size < MOST_BYTES
    assert contents(wheel) == {str(file) for file in files}
    assert contents(built_wheel(sdist, folders[2])) == contents(wheel)
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if "/tests" in name]


@pytest.mark.in_turn
@pytest.mark.full
def test_kernels_that_come_with_the_wheel_are_not_compiled_again(checkout: Path, tmp_path: Path) -> None:
    """At another path than where they were compiled, on any processor that has their instructions, and can be called;
    nothing is written. A kernel that is compiled later calls them, though the wheel has not the code that it could
    take in."""
    (tmp_path / "dist").mkdir()
    wheel = built_wheel(checkout, tmp_path / "dist", SLUICE_KERNELS="1")
    installed = tmp_path / "lib" / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    before = contents(wheel)

    environment = os.environ | {"PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    command = [sys.executable, "-B", "-c", _HITS]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    hits, misses, unknown = map(int, done.stdout.split())
    (tmp_path / "late.py").write_text(_LATE)
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "late")
    late = subprocess.run(
        [sys.executable, "-B", "late.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )

    assert wheel.stat().st_size < MOST_BYTES
    assert late.stdout == "769 1\n"
    assert "-any" not in wheel.name
    assert (misses, unknown) == (0, 0)
    assert hits > 20
    assert {str(file.relative_to(installed)) for file in installed.rglob("*") if file.is_file()} >= before
    assert not list(installed.rglob("__pycache__"))
    assert not list((tmp_path / "sluice").rglob("*.nb?"))


_HITS = """
import sys
import numpy as np
import cdc_core.rows.net, cdc_core.serve
from numba.core.dispatcher import Dispatcher
assert "site-packages" in cdc_core.serve.__file__
modules = [module for name, module in sys.modules.items() if name.startswith("cdc_core")]
kernels = {id(one): one for module in modules for one in vars(module).values() if isinstance(one, Dispatcher)}.values()
stats = [one.stats for one in kernels]
compiled = [result for one in kernels for result in one.overloads.values()]
entries = [one.library.get_pointer_to_function(one.fndesc.llvm_cpython_wrapper_name) for one in compiled]
assert cdc_core.binlog.checksum.crc32(np.frombuffer(b"123456789" * 9, np.uint8), 0, 9) == 0xCBF43926
hits, misses = (sum(map(len, found)) for found in zip(*((one.cache_hits, one.cache_misses) for one in stats)))
print(hits, misses, entries.count(0))
"""

_LATE = """
import numpy as np
from numba import types
from cdc_core.compiled import memory
from cdc_core.compiled.kernel import BYTES, kernel

@kernel(types.int64(BYTES))
def both(data):
    return memory.little(data, 0, 2) + memory.little(data, 1, 2)

print(both(np.arange(8, dtype=np.uint8)), sum(memory.little.stats.cache_hits.values()))
"""

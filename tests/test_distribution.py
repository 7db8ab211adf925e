"""The wheel and the source distribution, built from a clean checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_BYTES = 2_000_000
_SDIST = "import setuptools.build_meta as backend; backend.build_sdist({!r})"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git knows of this tree, without what was built or cached in it."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    folder = tmp_path_factory.mktemp("clean") / "checkout"
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def built_wheel(source: Path, folder: Path) -> Path:
    """The wheel of a folder or of a source distribution, built with what is installed here."""
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet", "--wheel-dir", folder]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, source], check=True, cwd=folder.parent)
    (wheel,) = folder.glob("*.whl")
    return wheel


def contents(wheel: Path) -> set[str]:
    """The names of a wheel's files, without those that describe it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


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

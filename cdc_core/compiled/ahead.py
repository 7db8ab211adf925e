"""Compiles all kernels ahead of time, `python -m cdc_core.compiled.ahead FOLDER`, or without a folder into their cache.

A wheel that was built with SLUICE_KERNELS=1 has such a folder, `cdc_core/compiled/ahead_of_time`. Its kernels are for
processors of this kind that have at least the instructions below; others compile their own, and so does an installation
with another numba or numpy.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_USES = "from cdc_core.compiled.kernel import"
_X86 = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+pclmul,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
"""What processors of x86-64-v3 have, and PCLMULQDQ, which all of them have too."""


def main(folder: Path) -> int:
    """Compiles the kernels into a folder. Returns how many there are."""
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.update(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES=_X86)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["NUMBA_CACHE_DIR"] = scratch
        compile_all()
        folder.mkdir(parents=True, exist_ok=True)
        kept = [*Path(scratch).rglob("*.nb[ci]")]
        for file in kept:
            shutil.copyfile(file, folder / file.name)
    return sum(file.suffix == ".nbi" for file in kept)


def compile_all() -> None:
    """Compiles the kernels that are not in the cache. Processes that start side by side would each do it."""
    for module in modules():
        with suppress(ModuleNotFoundError):  # of Spark's, where it is not installed
            importlib.import_module(module)


def modules() -> Iterator[str]:
    """The names of the modules that have kernels."""
    for package in ("cdc_core", "spark_jobs"):
        for file in sorted((_ROOT / package).rglob("*.py")):
            if _USES in file.read_text("utf-8") and file.parent != Path(__file__).parent:
                yield ".".join(file.relative_to(_ROOT).with_suffix("").parts)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(f"{main(Path(sys.argv[1]))} kernels")
    else:
        compile_all()

"""Compiles all kernels ahead of time, `python -m cdc_core.compiled.ahead FILE`, or without a file into their cache.

A wheel that was built with SLUICE_KERNELS=1 has such a file, `cdc_core/compiled/ahead_of_time.xz`. Its kernels are for
processors of this kind that have at least the instructions below; others compile their own, and so does an installation
with another numba or numpy.

The file has each kernel's machine code, and neither its LLVM code nor numba's annotated source, which are five times as
large: a kernel that is compiled later calls one of these, and cannot take its code into itself.
"""

from __future__ import annotations

import importlib
import lzma
import os
import pickle
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_BACKWARDS = "--backwards"
_USES = "from cdc_core.compiled.kernel import"
_X86 = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+pclmul,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
"""What processors of x86-64-v3 have, and PCLMULQDQ, which all of them have too."""


def main(file: Path) -> int:
    """Compiles the kernels into a file. Returns how many there are."""
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.update(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES=_X86)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["NUMBA_CACHE_DIR"] = scratch
        compile_all()
        return pack(Path(scratch), file)


def pack(folder: Path, file: Path) -> int:
    """Writes the kernels of a cache into a file. Returns how many there are."""
    kernels = dict(map(_read, sorted(folder.rglob("*.nbi"), key=lambda index: index.name)))
    file.write_bytes(lzma.compress(pickle.dumps(kernels), preset=9 | lzma.PRESET_EXTREME))
    return len(kernels)


def _read(index: Path) -> tuple[str, bytes]:
    """Returns a cached kernel's name, and what numba restores it from, by numba's key. The keys name classes of modules
    that use kernels: they are unpickled with the one kernel, when its module is imported."""
    with index.open("rb") as stored:
        pickle.load(stored)  # noqa: S301 (numba's version)
        _, names = pickle.load(stored)  # noqa: S301
    forms = {key: _slim((index.parent / name).read_bytes()) for key, name in names.items()}
    return index.stem, bytes(_dumps()(forms))


def _dumps() -> Any:
    from numba.core.serialize import dumps

    return dumps


def _slim(data: bytes) -> bytes:
    from llvmlite import binding  # type: ignore[import-untyped]

    (name, kind, (code, _)), *parts, _, reload, environments = pickle.loads(data)  # noqa: S301
    empty = binding.parse_assembly("").as_bitcode()
    return bytes(_dumps()(((name, kind, (code, empty)), *parts, "", reload, environments)))


def compile_all() -> None:
    """Compiles the kernels that are not in the cache, in two processes: the other one begins with the last module.
    Processes that start side by side would each compile all of them."""
    without = ["-B"] if sys.dont_write_bytecode else []
    other = subprocess.Popen([sys.executable, *without, "-m", "cdc_core.compiled.ahead", _BACKWARDS], cwd=_ROOT)
    _compile(list(modules()))
    other.wait()


def _compile(names: list[str]) -> None:
    for module in names:
        with suppress(ModuleNotFoundError):  # of Spark's, where it is not installed
            importlib.import_module(module)


def modules() -> Iterator[str]:
    """The names of the modules that have kernels."""
    for package in ("cdc_core", "spark_jobs"):
        for file in sorted((_ROOT / package).rglob("*.py")):
            if _USES in file.read_text("utf-8") and file.parent != Path(__file__).parent:
                yield ".".join(file.relative_to(_ROOT).with_suffix("").parts)


if __name__ == "__main__":
    if sys.argv[1:] == [_BACKWARDS]:
        _compile(list(modules())[::-1])
    elif sys.argv[1:]:
        print(f"{main(Path(sys.argv[1]))} kernels")
    else:
        compile_all()

"""Numba's cache on disk, with each kernel filed under a digest of its code and the tools that compiled it.

Numba looks at the file that a kernel stands in, and does not notice that a kernel or constant of another module has
changed. Here the digest is part of the file's name: a kernel that was made of something else is never found, whatever
the files' times say, and processes that start side by side from different sources do not share files. The digest is
the same wherever the packages are installed, so that kernels may come with them (`cdc_core.compiled.ahead`).
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

from cdc_core.compiled.places import LOCATORS

_AHEAD = Path(__file__).with_name("ahead_of_time.xz")
_TOOLS = f"numba {numba.__version__} llvmlite {llvmlite.__version__} numpy {np.__version__}"


class KernelCache(FunctionCache):
    """The cache of one kernel. Saving it removes what was cached of its earlier forms."""

    def __init__(self, function: Callable[..., Any], signature: Any, bare: bool) -> None:
        made_of = f"{_TOOLS}{ingredients(function)}{_fields(signature)}{'bare' if bare else ''}"
        digest = hashlib.sha256(made_of.encode()).hexdigest()[:16]
        self._impl_class: Any = partial(_Named, digest)
        super().__init__(function)  # type: ignore[no-untyped-call]
        base = self._impl.filename_base
        self._cache_file = IndexDataCacheFile(self._cache_path, base, digest)  # type: ignore[no-untyped-call]
        shipped = _shipped().get(base)
        self._shipped = pickle.loads(shipped) if shipped else {}  # noqa: S301 (it came with this module)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        if self._shipped:
            key = self._index_key(sig, target_context.codegen())  # type: ignore[no-untyped-call]
            if (data := _for_here(self._shipped, key)) is not None:
                payload = pickle.loads(data)  # noqa: S301
                _make_known(payload[1], target_context.codegen())
                return self._impl.rebuild(target_context, payload)
        with suppress(OSError):
            return super()._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """An installation that cannot be written to compiles again in each process."""
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
            for cached in Path(self._cache_path).glob(f"{self._impl.prefix}-*.nb[ci]"):
                if not cached.name.startswith(self._impl.filename_base):
                    cached.unlink(missing_ok=True)


@cache
def _shipped() -> dict[str, bytes]:
    """Returns the kernels that came with the package, by their names; none where they cannot be read."""
    try:
        import lzma
    except ModuleNotFoundError:  # a Python that was built without it compiles its own
        return {}
    try:
        return cast("dict[str, bytes]", pickle.loads(lzma.decompress(_AHEAD.read_bytes())))  # noqa: S301
    except (OSError, EOFError, lzma.LZMAError):
        return {}


def _for_here(shipped: dict[Any, bytes], key: tuple[Any, tuple[str, str, str], Any]) -> bytes | None:
    """Returns a kernel that runs on this processor, or None."""
    sig, here, code = key
    for (its_sig, made_for, its_code), data in shipped.items():
        if (its_sig, its_code) == (sig, code) and runs_on(made_for, here):
            return data
    return None


def _make_known(descriptor: Any, codegen: Any) -> None:
    """Tells numba which entry the machine code has. It reads that from the LLVM code, which the package has not, and
    calls address 0 for an entry that it does not know."""
    codegen._engine._defined_symbols.add(descriptor.llvm_cpython_wrapper_name)


def runs_on(made_for: tuple[str, str, str], here: tuple[str, str, str]) -> bool:
    """Whether code for one processor (platform, name, instructions) runs on another one."""
    needed, there = ({name for name in one[2].split(",") if name.startswith("+")} for one in (made_for, here))
    return made_for[0] == here[0] and needed <= there


class _Named(CompileResultCacheImpl):
    """Names files `module.function-python-digest`."""

    _locator_classes = LOCATORS

    def __init__(self, digest: str, function: Callable[..., Any]) -> None:
        self._digest = digest
        super().__init__(function)  # type: ignore[no-untyped-call]

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        base = str(super().get_filename_base(fullname, abiflags))  # type: ignore[no-untyped-call]
        self.prefix = base.replace(f"-{self._lineno}.", "-", 1)  # a kernel that moves in its file stays the same
        return f"{self.prefix}-{self._digest}"


@cache
def ingredients(function: Callable[..., Any]) -> str:
    """A digest of a function's bytecode, of the constants that it reads, and of the functions that it calls."""
    code = function.__code__
    constants = [constant for constant in code.co_consts if constant != function.__doc__]
    parts = [code.co_code.hex(), repr(constants), repr(code.co_names), *_globals(code.co_names, function.__globals__)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _globals(names: tuple[str, ...], scope: dict[str, Any]) -> Iterator[str]:
    for name in names:
        value = scope.get(name)
        if isinstance(value, ModuleType) and value.__name__.startswith("cdc_core"):
            yield from _globals(names, vars(value))
        elif value is not None:
            yield f"{name}={_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Dispatcher):
        return ingredients(value.py_func)
    if hasattr(value, "_defn"):  # numba's intrinsic: code that it generates
        return hashlib.sha256(Path(value._defn.__code__.co_filename).read_bytes()).hexdigest()
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, type) and issubclass(value, Enum):
        return repr(list(value))
    if isinstance(value, type) and hasattr(value, "_fields"):
        return repr(value._fields)
    if isinstance(value, ModuleType):
        return value.__name__
    if callable(value):
        return str(getattr(value, "__qualname__", value))
    return repr(value)


def _fields(signature: Any) -> str:
    """The names in the arguments' types, which numba finds fields by."""
    return repr([(str(one), getattr(one, "fields", ())) for one in signature.args if isinstance(one, types.Type)])

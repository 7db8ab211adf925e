"""Memory that the process gives back: large freed buffers and the code of LLVM, never what is still needed."""

from __future__ import annotations

import subprocess
import sys

_RESIDENT = """
import re
def resident(name=""):
    lines = open("/proc/self/smaps").read().splitlines()
    total, inside = 0, False
    for line in lines:
        if re.match("[0-9a-f]+-", line): inside = name in line
        elif inside and line.startswith("Rss:"): total += int(line.split()[1])
    return total / 1024
"""


def run(script: str) -> str:
    """In a process of its own: these settings last."""
    return subprocess.check_output([sys.executable, "-c", _RESIDENT + script], text=True)


def test_freed_buffers_go_back_to_the_system() -> None:
    """Even those of a size that glibc would keep, freed in another thread than they were made in."""
    told = run("""
import threading
import numpy as np
from cdc_core import memory
memory.give_back()
before = resident()
for _ in range(20):
    kept = []
    fill = lambda: kept.extend(np.ones(1 << 20, np.uint8) for _ in range(10))
    makers = [threading.Thread(target=fill) for _ in "1234"]
    for maker in makers: maker.start()
    for maker in makers: maker.join()
print(resident() - before > 35)
kept.clear()
print(resident() - before < 5)
""")
    assert told.split() == ["True", "True"]


def test_the_compiler_comes_back_when_asked() -> None:
    """Its code is out of memory, and it still compiles."""
    told = run("""
import numba
from cdc_core import memory
numba.njit("int64(int64)")(lambda x: x + 1)
before = resident("llvmlite")
memory.forget_compiler()
print(resident("llvmlite") < before / 2)
print(numba.njit("int64(int64)")(lambda x: x + 2)(40))
""")
    assert told.split() == ["True", "42"]


def test_the_service_loads_no_pandas() -> None:
    """pyarrow would load its 45 MB for the first array."""
    told = run("""
import sys
import cdc_core.serve, cdc_core.doors.flight, cdc_core.doors.http, cdc_core.rows.net
print("pandas" in sys.modules, "dagster" in sys.modules, "pyspark" in sys.modules)
""")
    assert told.split() == ["False"] * 3


def test_the_service_opens_before_the_kernels_for_rows_are_loaded() -> None:
    """The source is connected sooner: a tenth of a second with compiled code on disk, half a minute without."""
    told = run("""
import sys
import cdc_core.serve, cdc_core.doors.flight, cdc_core.doors.http
print([name for name in sys.modules if name.startswith("cdc_core.rows.")])
""")
    assert told.split() == ["[]"]


def test_the_collector_skips_what_the_start_has_made() -> None:
    """Objects made before `settle` are frozen, garbage is collected first, and the collector is on."""
    told = run("""
import gc
gc.disable()
from cdc_core import memory
loop = []
loop.append(loop)
del loop
before = len(gc.get_objects())
memory.settle()
print(gc.isenabled(), gc.get_freeze_count() > 10_000, len(gc.get_objects()) < before / 10)
""")
    assert told.split() == ["True"] * 3


def test_garbage_is_collected_once_for_all_who_ask() -> None:
    """After the seconds, and again later; a thread that cannot start leaves the next one its turn."""
    told = run("""
import gc, threading, time, weakref
from cdc_core import memory
class Part: pass
gc.disable()
def garbage():
    part = Part()
    part.itself = part
    return weakref.ref(part)
for _ in range(2):
    gone = garbage()
    for _ in range(20):
        memory.collect_soon(1)
    print(threading.active_count(), gone() is not None)
    while gone() is not None or threading.active_count() > 1: time.sleep(0.01)
start = threading.Thread.start
def refuse(thread): raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
memory.collect_soon(0.2)
threading.Thread.start, gone = start, garbage()
memory.collect_soon(0.2)
while gone() is not None: time.sleep(0.01)
""")
    assert told.split() == ["2", "True"] * 2

"""The process that forks Python workers for Spark: it has imported what the job of small tables needs.

Spark ends workers that had nothing to do for a minute. A new one imports all of that again from Spark's own daemon,
which takes half a second of CPU; from this one it has it, and shares the memory.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from importlib import import_module

from pyspark.daemon import manager

if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads that an import starts are not there after a fork
    gc.disable()
    with suppress(Exception):  # a task that needs it says what is missing, and tables are written by statements
        for _name in ("pyspark.worker", "spark_jobs.write.small_table"):
            import_module(_name)
    gc.freeze()
    gc.enable()
    manager()

"""The process that forks Python workers for Spark: it has imported what the job of small tables needs.

Spark ends workers that had nothing to do for a minute. A new one of Spark's own daemon imports all of that again, which
takes half a second of CPU. Spark starts this module by its name.
"""

from __future__ import annotations

import os
from contextlib import suppress

from pyspark.daemon import manager

if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads that an import starts are not there after a fork
    with suppress(Exception):  # a task that needs it says what is missing, and tables are written by statements
        from cdc_core.memory import preload

        preload(("pyspark.worker", "spark_jobs.write.small_table"))
    manager()

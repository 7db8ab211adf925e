"""The driver of a local Spark Connect server: it waits. Connect is a plugin of it.

Spark's own main class for Connect isolates sessions whatever is configured: the Python workers of each have another
environment, so that each session starts daemons of its own, which takes seconds and 40 MB for each. A plugin leaves the
configuration as it is, and all sessions share them.
"""

from __future__ import annotations

import signal

from pyspark.sql import SparkSession

if __name__ == "__main__":
    SparkSession.builder.getOrCreate()
    signal.pause()

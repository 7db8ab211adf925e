"""What the process that forks Dagster's runs imports: all that runs need. Garbage collection passes over it in every
run, so that runs share its memory and start sooner."""

from __future__ import annotations

import gc
from importlib import import_module

from cdc_core.memory import settle

gc.disable()  # imports make no garbage: without the collector they take two thirds of the time
for _name in ("orchestration.definitions", "dagster._grpc.server", "pyspark.sql.connect.session"):
    import_module(_name)
settle()

"""What the process that forks Dagster's runs imports: all that runs need."""

from __future__ import annotations

from cdc_core.memory import preload

preload(("orchestration.definitions", "dagster._grpc.server", "pyspark.sql.connect.session"))

"""The driver of a local Spark Connect server: it waits. Connect is a plugin of it.

Spark's own main class for Connect isolates sessions whatever is configured: the Python workers of each have another
environment, so that each session starts daemons of its own, which takes seconds and 40 MB for each. A plugin leaves the
configuration as it is, and all sessions share them.

It speaks to Java by py4j alone: to import pyspark takes a second and a half before Spark starts.
"""

from __future__ import annotations

import os
import signal

from py4j.java_gateway import GatewayParameters, JavaGateway

if __name__ == "__main__":
    port, secret = int(os.environ["PYSPARK_GATEWAY_PORT"]), os.environ["PYSPARK_GATEWAY_SECRET"]  # Spark's PythonRunner
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    gateway.jvm.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate()
    signal.pause()

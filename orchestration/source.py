"""The MySQL server that a destination reads, for commands and runs that read it themselves.

Address and account are in `conf/{destination}/instance.properties`, so that no secret is in a defs.yaml.
"""

from __future__ import annotations

from cdc_core.client.connector import Connector
from cdc_core.config import InstanceConfig
from spark_jobs.snapshot.source import Source, captured_source

CONF_VARIABLE = "SLUICE_CONF"  # names the directory of canal.properties for runs


def source_of(instance: InstanceConfig, connector: Connector) -> Source:
    """The server that the service reads at this moment: the master, or the standby, as the client's rules show it."""
    return captured_source(instance, connector.status().source, connector.rules())

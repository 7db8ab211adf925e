"""The job that brings tables into the lake while the stream goes on, or reloads them."""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

import time
from collections.abc import Callable, Iterator

import dagster as dg
from pydantic import Field

from cdc_core import config as service_config
from cdc_core.client.connector import Connector
from cdc_core.errors import ConfigError, SluiceError
from orchestration import processes
from orchestration.failures import failure
from orchestration.jobs.copying import LONG_RUN, TELL_SECONDS, conf_of, copy_facts, named
from orchestration.jobs.order import Order, order_facts
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.copy.result import Copied
from spark_jobs.copy.snapshot import Manner, Read, TableSnapshots
from spark_jobs.snapshot.limits import Limits

SNAPSHOT_TAG = "cdc/snapshot"


class Snapshot(Order):
    """What to bring into the lake, and how gently."""

    tables: list[str] = Field([], description="database.table, one or more; empty: all that are captured.")
    rows_per_chunk: int = Field(250_000, ge=1, description="About how many rows a chunk has.")
    connections: int = Field(4, ge=1, description="Chunks read at once, each over a connection of its own.")
    rows_per_second: float | None = Field(None, ge=1, description="The most rows a second; without it, no limit.")
    replica: str = Field("", description="HOST:PORT of a replica to read from, by the same account.")

    read_on: str = Field("", description="driver or executors; empty: executors where Spark is a cluster.")

    @property
    def manner(self) -> Manner:
        """Raises ConfigError for a replica that is no address, and another reader."""
        limits = Limits(self.rows_per_second, self.connections)
        return Manner(self.rows_per_chunk, limits, replica_of(self.replica), self.read_on)


def replica_of(address: str) -> tuple[str, int] | None:
    """Host and port. Raises ConfigError for what is none."""
    host, _, port = address.rpartition(":")
    if not address:
        return None
    if not host or not port.isdigit():
        raise ConfigError(f"{address} is no address", place="replica", hint="Give HOST:PORT, e.g. replica1:3306.")
    return host, int(port)


def snapshot_job(settings: Settings) -> dg.JobDefinition:
    """Reads tables beside the runs that drain; one such run of a destination at a time."""
    names = settings.names

    @dg.op(
        name=f"snapshot_{names.safe}_op",
        out={},
        pool=f"snapshot_{names.safe}",
        required_resource_keys={names.canal, names.lake},
    )
    def take(context: dg.OpExecutionContext, config: Snapshot) -> Iterator[dg.AssetMaterialization]:
        canal: CanalResource = getattr(context.resources, names.canal)
        lake: LakeResource = getattr(context.resources, names.lake)
        processes.note(context)
        failed: list[str] = []
        try:
            with canal.connect() as connector, lake.open(connector, canal.token) as spark_lake:
                snapshots = _snapshots(context, settings, lake, connector, spark_lake, config)
                yield from _materialized(context, settings, snapshots, config, failed)
        except SluiceError as error:
            raise failure(error) from error
        if failed:
            raise dg.Failure("\n".join(failed), allow_retries=False)

    @dg.job(
        name=f"snapshot_{names.safe}",
        config=Snapshot.form(f"snapshot_{names.safe}_op"),
        tags={SNAPSHOT_TAG: settings.destination, **LONG_RUN, **names.job_tags},
        executor_def=dg.in_process_executor,
        description=f"Bring tables of {settings.destination} into the lake, or reload them, while the stream goes "
        "on. A run that was ended goes on where it was when the job is started again.",
    )
    def snapshot() -> None:
        take()

    return snapshot


def _snapshots(
    context: dg.OpExecutionContext,
    settings: Settings,
    lake: LakeResource,
    connector: Connector,
    spark_lake: SparkLake,
    config: Snapshot,
) -> TableSnapshots:
    instance, _ = service_config.load_instance(conf_of(lake), settings.destination)
    return TableSnapshots(connector, instance, spark_lake.lake, spark_lake.sessions, config.manner, context.run_id)


def _materialized(
    context: dg.OpExecutionContext, settings: Settings, snapshots: TableSnapshots, config: Snapshot, failed: list[str]
) -> Iterator[dg.AssetMaterialization]:
    """Goes through the tables. Those that are not brought into the lake go to `failed`, with the reason."""
    asked = order_facts(context, "snapshot", config.reason)
    for name in config.tables or [table.name for table in snapshots.connector.tables()]:
        begun = time.monotonic()
        try:
            found = snapshots.table(*named(name), told=_teller(context))
        except SluiceError as error:
            context.log.error(f"{name}: {error}")
            failed.append(f"{name}: {error}")
            continue
        if not isinstance(found, Copied):
            failed.append(f"{name}: the source has no such table; nothing was written")
            continue
        context.log.info(f"{name}: {found.rows} rows as of {found.place.low}")
        seconds = max(time.monotonic() - begun, 0.001)
        facts = asked | copy_facts(found) | {"seconds": seconds, "rows_per_second": found.rows / seconds}
        yield dg.AssetMaterialization(settings.names.delta(name), metadata=facts)


def _teller(context: dg.OpExecutionContext, clock: Callable[[], float] = time.monotonic) -> Callable[[Read], None]:
    """Puts the progress of a table into the log, every few seconds."""
    begun = told = clock()

    def tell(read: Read) -> None:
        nonlocal told
        if clock() - told < TELL_SECONDS:
            return
        told = clock()
        rate = (read.rows - read.before) / (told - begun)
        of = f" of about {read.of_rows}" if read.of_rows else ""
        context.log.info(f"{read.table}: {read.rows}{of} rows in {read.chunks} chunks, {rate:.0f} rows/s")

    return tell

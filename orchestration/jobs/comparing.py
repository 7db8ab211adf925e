"""How a run compares tables with the source, and what it says of that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdc_core import config as service_config
from orchestration.jobs.copying import conf_of
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from orchestration.source import source_of
from spark_jobs.lake.tables import Lake
from spark_jobs.verify.beside import TableComparer
from spark_jobs.verify.verified import Verified


@contextmanager
def opened_beside(resources: Any, settings: Settings, timeout_seconds: float) -> Iterator[TableComparer]:
    """What compares tables of the destination. Raises ConfigError when the run does not know the source."""
    names = settings.names
    canal: CanalResource = getattr(resources, names.canal)
    lake: LakeResource = getattr(resources, names.lake)
    instance, _ = service_config.load_instance(conf_of(lake), settings.destination)
    with canal.connect() as connector:
        yield TableComparer(connector, source_of(instance, connector), Lake(lake.root), timeout_seconds)


def comparison_facts(found: Verified) -> dict[str, Any]:
    """Metadata: the counts, where they were taken, and what to do."""
    told = found.to_dict()
    told.pop("table")
    return {name: value for name, value in told.items() if value not in (None, [])}


def comparison_text(found: Verified) -> str:
    """For people."""
    counted = found.comparison
    if counted is None:
        return f"not compared: {found.error}"
    repaired = f"{found.repaired} rows repaired; " if found.repaired else ""
    if not found.differences:
        return f"{repaired}{counted.lake_rows} rows, as at the source"
    rows = f"{counted.missing} rows missing, {counted.extra} extra, {counted.different} different"
    return "; ".join([f"{repaired}{rows}", *found.definition])

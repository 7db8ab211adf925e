"""The `defs.yaml` files that Dagster loads: one component for each destination."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from cdc_core.config import ServiceConfig
from cdc_core.contract.doors import local_doors
from cdc_core.errors import ConfigError

DESTINATION = "orchestration.destination.CdcDestination"


def write_component(file: Path, attributes: Mapping[str, object], kind: str = DESTINATION) -> None:
    """Writes one component's `defs.yaml`: that of a destination, or of another `kind`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    component = {"type": kind, "attributes": dict(attributes)}
    file.write_text(yaml.safe_dump(component, sort_keys=False))


def users_folder(defs: Path, folder: Path) -> Path:
    """The folder of the user's `defs`: itself, or `folder` with a copy of a single file. Raises ConfigError."""
    if defs.is_dir():
        return defs.absolute()
    if not defs.is_file():
        raise ConfigError("no such file", place=str(defs), hint="Give a defs.yaml, or a folder of */defs.yaml.")
    _clear(folder)
    copy = folder / (defs.absolute().parent.name or "own") / "defs.yaml"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(defs.read_bytes())
    return folder


def default_folder(
    destinations: Iterable[str], lake: str, conf: Path, service: ServiceConfig, spark: str, folder: Path
) -> Path:
    """`folder` with a component for each destination, which takes all its tables to the lake."""
    _clear(folder)
    found = local_doors(service)
    doors = {"http": found.http, "flight": found.flight}
    for name in destinations:
        place = {"destination": name, "lake": lake, "conf": str(conf.absolute())}
        write_component(folder / name / "defs.yaml", place | {"service": doors, "spark": spark, "snapshot": "initial"})
    return folder


def _clear(folder: Path) -> None:
    for file in folder.glob("*/defs.yaml"):
        file.unlink()

"""Reads a configuration directory: `canal.properties`, and `{destination}/instance.properties` over it.

A wrong value is an error that names file, line and key. Keys without effect are reported by name and are not errors,
unless they look like a key that is not set. A start position that cannot be used as written is an error: another start
would lose data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from cdc_core.config.canal_keys import is_unsupported
from cdc_core.config.likeness import check_names
from cdc_core.config.models import INSTANCE_KEYS, SERVICE_KEYS, InstanceConfig, ServiceConfig
from cdc_core.config.properties import Properties, read_properties
from cdc_core.config.queue import SERVER_MODE, QueueConfig, is_of_queues, queue_values
from cdc_core.errors import ConfigError

M = TypeVar("M", bound=BaseModel)

_ALL_LAZY = "canal.instance.global.lazy"
_LAZY = re.compile(r"canal\.instance\.[^.]+\.lazy")
_STOCK_CONF = "../conf"
_SERVICE, _INSTANCE = "canal.properties", "instance.properties"
_STORE_DIR = "sluice.store.dir"
_BIN = "bin"  # Canal runs in this sibling of its conf: relative directories start here


@dataclass(frozen=True, slots=True)
class Report:
    """Keys without effect: unknown ones, and Canal's that are not supported."""

    unknown: tuple[str, ...]
    unsupported: tuple[str, ...]


def load_service(conf_dir: Path, environment: Mapping[str, str] = os.environ) -> tuple[ServiceConfig, Report]:
    """Raises ConfigError."""
    properties = _service_properties(conf_dir, environment)
    values = _values(properties, SERVICE_KEYS)
    for key in ("canal.conf.dir", "canal.file.data.dir"):
        values[key] = str(_directory(conf_dir, values.get(key, _STOCK_CONF)))
    report = _report(properties.own, _mode(properties))
    check_names(report.unknown, properties)
    return _build(ServiceConfig, values, properties), report


def load_instance(
    conf_dir: Path, destination: str, environment: Mapping[str, str] = os.environ
) -> tuple[InstanceConfig, Report]:
    """Raises ConfigError, also for a destination without instance.properties."""
    service = _service_properties(conf_dir, environment)
    directory = _directory(conf_dir, service.get("canal.conf.dir") or _STOCK_CONF)
    own = read_properties(directory / destination / _INSTANCE)
    properties = Properties(own, environment, service)
    values: dict[str, Any] = _values(properties, INSTANCE_KEYS) | {"canal.instance.destination": destination}
    lazy = f"canal.instance.{destination}.lazy"
    if own_lazy := properties.get(lazy):
        values[_ALL_LAZY] = own_lazy
    data = _directory(conf_dir, service.get("canal.file.data.dir") or _STOCK_CONF)
    kept = values.get(_STORE_DIR)
    values[_STORE_DIR] = str(_directory(conf_dir, kept) if kept else data / "store")
    report = _report(own, _mode(service))
    check_names(report.unknown, properties)
    _check_start(values, properties)
    if (mode := _mode(service)) != "tcp":
        values["queue"] = _build(QueueConfig, queue_values(properties, mode, destination), properties)
    return _build(InstanceConfig, values, properties, {_ALL_LAZY: lazy} if own_lazy else {}), report


def _mode(service: Properties) -> str:
    """The queue that all destinations go to, or tcp."""
    return _build(QueueConfig, {SERVER_MODE: service.get(SERVER_MODE) or "tcp"}, service).mode


def stamp(conf_dir: Path, service: ServiceConfig, destination: str) -> tuple[object, ...]:
    """Changes when a file that `load_instance` reads is written or replaced."""
    return tuple(map(_written, (conf_dir / _SERVICE, service.conf_dir / destination / _INSTANCE)))


def _written(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def destinations(service: ServiceConfig) -> list[str]:
    """The destinations of `canal.destinations`; with auto scan also every directory with an instance.properties."""
    names = list(service.destinations)
    if service.auto_scan and service.conf_dir.is_dir():
        names += [path.parent.name for path in sorted(service.conf_dir.glob(f"*/{_INSTANCE}"))]
    return list(dict.fromkeys(names))


def _service_properties(conf_dir: Path, environment: Mapping[str, str]) -> Properties:
    return Properties(read_properties(conf_dir / _SERVICE), environment)


def _directory(conf_dir: Path, value: str) -> Path:
    if value == _STOCK_CONF:
        return conf_dir.absolute()
    return Path(os.path.normpath(conf_dir.absolute().parent / _BIN / value))


def _values(properties: Properties, keys: Iterable[str]) -> dict[str, str]:
    """The keys that are set. An empty value counts as not set: Canal's stock files have many."""
    return {key: value for key in keys if (value := properties.get(key))}


def _check_start(values: Mapping[str, str], properties: Properties) -> None:
    """A GTID set as the only start needs GTID mode: without it, reading would start elsewhere."""
    others = ("canal.instance.master.journal.name", "canal.instance.master.timestamp")
    gtid_mode = values.get("canal.instance.gtidon", "").lower() in ("true", "1", "on", "yes")
    if "canal.instance.master.gtid" in values and not gtid_mode and not any(key in values for key in others):
        raise ConfigError(
            "canal.instance.master.gtid has no effect without GTID mode",
            place=properties.place("canal.instance.master.gtid"),
            hint="Set canal.instance.gtidon = true, or start at a journal and position or at a timestamp.",
        )


def _build(
    model: type[M], values: Mapping[str, Any], properties: Properties, aliases: Mapping[str, str] | None = None
) -> M:
    """`aliases` names the key that a value came from where it is not the model's."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        key = str(first["loc"][0]) if first["loc"] else "sluice.ssl.cert"
        place = properties.place((aliases or {}).get(key, key))
        raise ConfigError(first["msg"].removeprefix("Value error, "), place=place, hint=_remedy(model, key)) from None


def _remedy(model: type[BaseModel], key: str) -> str:
    if key == "canal.instance.enableDruid":
        return "Take the password from the environment, with ${NAME}, instead of encrypting it."
    field = next((f for f in model.model_fields.values() if f.alias == key), None)
    if field is None or field.is_required():
        return f"Correct {key}."
    shown = field.default.get_secret_value() if hasattr(field.default, "get_secret_value") else field.default
    return f"Correct {key}, or remove it for the default ({shown if shown not in ('', None) else 'none'})."


def _report(own: Iterable[str], mode: str) -> Report:
    keys = (key for key in set(own) - SERVICE_KEYS - INSTANCE_KEYS if not is_of_queues(key, mode))
    others = sorted(key for key in keys if not _LAZY.fullmatch(key))
    unsupported = tuple(filter(is_unsupported, others))
    return Report(tuple(key for key in others if key not in unsupported), unsupported)

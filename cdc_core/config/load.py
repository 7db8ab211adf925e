"""Reads a configuration directory: `canal.properties`, and `{destination}/instance.properties` over it.

Fails closed, naming file, line and key. A key that nobody knows is reported by name, and so are Canal's keys that
have no effect here; a start that is asked for in a way not understood is an error, since another start would lose data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from cdc_core.config.models import INSTANCE_KEYS, SERVICE_KEYS, InstanceConfig, ServiceConfig
from cdc_core.config.properties import Properties, read_properties
from cdc_core.errors import ConfigError

M = TypeVar("M", bound=BaseModel)

_CANAL = re.compile(
    r"canal\.(user|passwd|withoutNetty|serverMode|id|socketChannel|destinations\.expr|admin\..+|aliyun\..+"
    r"|file\.flush\.period|mq\..+|auto\.reset\.latest\.pos\.mode|instance\.\w+\.(mode|spring\.xml"
    r"|manager\.address)|instance\.(memory\.rawEntry|fallbackIntervalInSeconds|transaction\.size|network\..+"
    r"|filter\..+|binlog\.(format|image)|get\.ddl\.isolation|parser\..+|tsdb\..+|global\..+|mysql\..+|gtidon|master\..+"
    r"|standby\..+|multi\.stream\.on|connectionCharset|pwdPublicKey|defaultDatabaseName|rds\..+))"
    r"|(kafka|rocketmq|rabbitmq|pulsarmq)\..+"
)
_ALL_LAZY = "canal.instance.global.lazy"
_LAZY = re.compile(r"canal\.instance\.[^.]+\.lazy")
_STOCK_CONF = "../conf"
_SERVICE, _INSTANCE = "canal.properties", "instance.properties"
_BIN = "bin"  # Canal's relative directories are seen from here, beside its conf


@dataclass(frozen=True, slots=True)
class Report:
    """Keys without effect: not known at all, and known from Canal but not supported."""

    unknown: tuple[str, ...]
    unsupported: tuple[str, ...]


def load_service(conf_dir: Path, environment: Mapping[str, str] = os.environ) -> tuple[ServiceConfig, Report]:
    """Raises ConfigError."""
    properties = _service_properties(conf_dir, environment)
    values = _values(properties, SERVICE_KEYS)
    for key in ("canal.conf.dir", "canal.file.data.dir"):
        values[key] = str(_directory(conf_dir, values.get(key, _STOCK_CONF)))
    return _build(ServiceConfig, values, properties), _report(properties.own)


def load_instance(
    conf_dir: Path, destination: str, environment: Mapping[str, str] = os.environ
) -> tuple[InstanceConfig, Report]:
    """Raises ConfigError, also when the destination has no instance.properties."""
    service = _service_properties(conf_dir, environment)
    directory = _directory(conf_dir, service.get("canal.conf.dir") or _STOCK_CONF)
    own = read_properties(directory / destination / _INSTANCE)
    properties = Properties(own, environment, service)
    values = _values(properties, INSTANCE_KEYS) | {"canal.instance.destination": destination}
    lazy = f"canal.instance.{destination}.lazy"
    if own_lazy := properties.get(lazy):
        values[_ALL_LAZY] = own_lazy
    _check_start(values, properties)
    return _build(InstanceConfig, values, properties, {_ALL_LAZY: lazy} if own_lazy else {}), _report(own)


def stamp(conf_dir: Path, service: ServiceConfig, destination: str) -> tuple[object, ...]:
    """Differs once a file that `load_instance` reads was written or replaced."""
    return tuple(map(_written, (conf_dir / _SERVICE, service.conf_dir / destination / _INSTANCE)))


def _written(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def destinations(service: ServiceConfig) -> list[str]:
    """Those named, and with auto scan those whose directory is there."""
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
    """What is set; an empty value is as good as none, as Canal's stock files have it."""
    return {key: value for key in keys if (value := properties.get(key))}


def _check_start(values: Mapping[str, str], properties: Properties) -> None:
    """A GTID set alone, without GTID mode: the start would be another than asked for."""
    others = ("canal.instance.master.journal.name", "canal.instance.master.timestamp")
    gtid_mode = values.get("canal.instance.gtidon", "").lower() in ("true", "1", "on", "yes")
    if "canal.instance.master.gtid" in values and not gtid_mode and not any(key in values for key in others):
        raise ConfigError(
            "a start by GTID wants GTID mode",
            place=properties.place("canal.instance.master.gtid"),
            hint="Set canal.instance.gtidon = true, or give a journal and position, or a timestamp.",
        )


def _build(
    model: type[M], values: Mapping[str, str], properties: Properties, instead: Mapping[str, str] | None = None
) -> M:
    """`instead`: keys whose values came from another key."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        key = str(first["loc"][0]) if first["loc"] else "sluice.ssl.cert"
        place = properties.place((instead or {}).get(key, key))
        raise ConfigError(first["msg"].removeprefix("Value error, "), place=place, hint=_remedy(model, key)) from None


def _remedy(model: type[BaseModel], key: str) -> str:
    if key == "canal.instance.enableDruid":
        return "Give the password by ${NAME} from the environment instead of encrypting it."
    field = next((f for f in model.model_fields.values() if f.alias == key), None)
    if field is None or field.is_required():
        return f"Correct {key}."
    shown = field.default.get_secret_value() if hasattr(field.default, "get_secret_value") else field.default
    return f"Correct {key}, or leave it out for the default ({shown if shown not in ('', None) else 'none'})."


def _report(own: Iterable[str]) -> Report:
    others = sorted(key for key in set(own) - SERVICE_KEYS - INSTANCE_KEYS if not _LAZY.fullmatch(key))
    known = {key for key in others if _CANAL.fullmatch(key)}
    return Report(tuple(k for k in others if k not in known), tuple(sorted(known)))

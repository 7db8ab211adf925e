"""The destinations of a configuration directory, as their files have them now. Each key without effect is told once."""

from __future__ import annotations

from pathlib import Path

import structlog

from cdc_core import config
from cdc_core.config import InstanceConfig, Report, ServiceConfig

log = structlog.get_logger(__name__)


class Configured:
    """The state is when each destination's files were read, and the keys that were told of."""

    def __init__(self, service: ServiceConfig, path: Path) -> None:
        self.path = path
        self._service = service
        self._read: dict[str, tuple[object, ...]] = {}
        self._told: set[str] = set()

    def __repr__(self) -> str:
        return f"<Configured {self.path}>"

    def names(self) -> list[str]:
        return config.destinations(self._service)

    def written(self, name: str) -> bool:
        """Since it was last read."""
        return self._read.get(name) != config.stamp(self.path, self._service, name)

    def read(self, name: str) -> InstanceConfig:
        """Raises ConfigError."""
        self._read[name] = config.stamp(self.path, self._service, name)  # before: it may be written meanwhile
        found, report = config.load_instance(self.path, name)
        self.tell(report)
        return found

    def tell(self, report: Report) -> None:
        for keys, message in (
            (report.unknown, "unknown keys"),
            (report.unsupported, "keys of Canal without effect here"),
        ):
            if new := [key for key in keys if key not in self._told]:
                log.warning(message, keys=new)
                self._told.update(new)

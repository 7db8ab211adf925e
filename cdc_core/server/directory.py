"""The configuration directory: which destinations there are, and what their files say now.

Each key without effect is logged once.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from cdc_core import config
from cdc_core.config import Report, ServiceConfig
from cdc_core.destination.events import Configuration
from cdc_core.errors import ConfigError, SluiceError
from cdc_core.store.disk.volumes import is_store
from cdc_core.stream.filter import make_filter

_DELETE = "Delete it, unless another service or a destination that comes back uses it: it holds rows of the source."

log = structlog.get_logger(__name__)


class Directory:
    """The state is when each destination's files were last read, where its store on disk is, and what was logged."""

    def __init__(self, service: ServiceConfig, path: Path) -> None:
        self.path = path
        self._service = service
        self._stamps: dict[str, tuple[object, ...]] = {}
        self._logged: set[str] = set()
        self._stores: dict[str, Path] = {}

    def __repr__(self) -> str:
        return f"<Directory {self.path}>"

    def names(self) -> list[str]:
        return config.destinations(self._service)

    def written(self, name: str) -> bool:
        """Whether a destination's files were written since they were last read."""
        return self._stamps.get(name) != config.stamp(self.path, self._service, name)

    def read(self, name: str) -> Configuration:
        """A destination's configuration, or why it cannot be used."""
        self._stamps[name] = config.stamp(self.path, self._service, name)  # before: it may be written meanwhile
        try:
            found, report = config.load_instance(self.path, name)
        except ConfigError as error:
            return Configuration(None, error)
        self.warn(report)
        if found.store_dir is not None:
            self._stores[name] = found.store_dir
        try:
            make_filter(found.filter_regex, found.filter_black_regex)
        except SluiceError as error:
            return Configuration(found, error)
        return Configuration(found)

    def warn(self, report: Report) -> None:
        for keys, message in (
            (report.unknown, "unknown keys"),
            (report.unsupported, "keys of Canal without effect here"),
        ):
            if new := [key for key in keys if key not in self._logged]:
                log.warning(message, keys=new)
                self._logged.update(new)

    def tell_leftovers(self) -> None:
        """Logs, once each, what removed destinations left on disk. Another service may use it, so it stays."""
        names = set(self.names())
        for left in (one for place in set(self._stores.values()) for one in _inside(place)):
            if left.name not in names and str(left) not in self._logged and is_store(left):
                self._logged.add(str(left))
                log.warning("no destination uses this store on disk", place=str(left), hint=_DELETE)


def _inside(place: Path) -> list[Path]:
    """Nothing where the directory is not there or cannot be read: its own users say so."""
    try:
        return list(place.iterdir())
    except OSError:
        return []

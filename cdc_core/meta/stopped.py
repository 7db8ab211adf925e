"""Tables that a client cannot go on with, kept beside its cursor until somebody lets them go on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from cdc_core.meta.kept import Kept
from cdc_core.meta.nodes import Change


@dataclass(frozen=True, slots=True)
class StoppedTable:
    """A table that cannot go on, why, since which position, and what mends it."""

    table: str
    reason: str
    hint: str
    position: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class StoppedTables(Kept):
    """Node `stopped/{table}` of each client."""

    def of(self, client_id: int) -> list[StoppedTable]:
        root = self._path(client_id, "stopped")
        found = []
        for name in self._nodes.children(root):
            path = f"{root}/{name}"
            node = self._nodes.read(path)
            stopped = self._parsed(path, node, lambda value: StoppedTable(**json.loads(value)), "a stopped table")
            found += [stopped] if stopped else []
        return found

    def stop(self, client_id: int, stopped: StoppedTable) -> None:
        path = self._path_of(client_id, stopped.table)
        self._put(path, self._nodes.read(path), json.dumps(stopped.to_dict()).encode())

    def resume(self, client_id: int, table: str) -> None:
        path = self._path_of(client_id, table)
        node = self._nodes.read(path)
        if node is not None:
            self._nodes.write({path: Change(None, node.version)})

    def _path_of(self, client_id: int, table: str) -> str:
        return f"{self._path(client_id, 'stopped')}/{quote(table, safe='')}"

"""The XA transactions that are prepared and wait: where the source's binlog has each, and the rows of the latest.

Nothing is lost with it: what is not here is found in the binlog again.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_core.binlog.group import Group
from cdc_core.binlog.xid import Xid

CACHE = 16 << 20  # bytes of rows


class Prepared:
    """Places are kept for all, rows for the latest within `cache` bytes."""

    def __init__(self, cache: int = CACHE) -> None:
        self._groups: dict[Xid, Group] = {}
        self._cache, self._bytes = cache, 0

    def __len__(self) -> int:
        return len(self._groups)

    def __repr__(self) -> str:
        return f"<Prepared groups={len(self)} bytes={self._bytes}>"

    def get(self, name: Xid) -> Group | None:
        return self._groups.get(name)

    def add(self, name: Xid, group: Group) -> None:
        self.forget(name)
        self._groups[name] = group
        self._bytes += _size(group)
        for other, waiting in self._groups.items():
            if self._bytes <= self._cache:
                return
            self._bytes -= _size(waiting)
            self._groups[other] = replace(waiting, rows=None)

    def forget(self, name: Xid) -> None:
        """Committed or rolled back."""
        group = self._groups.pop(name, None)
        if group is not None:
            self._bytes -= _size(group)


def _size(group: Group) -> int:
    return 0 if group.rows is None else group.rows.nbytes

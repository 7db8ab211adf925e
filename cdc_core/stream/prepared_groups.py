"""The event groups of prepared XA transactions: where each lies in the source's binlog, and the rows of the latest.

A cache: `History.find_prepared` finds in the binlog what is not here.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_core.binlog.xid import Xid
from cdc_core.stream.group import Group

CACHE = 16 << 20  # bytes of rows


class PreparedGroups:
    """Keeps every group's place, and the latest groups' rows up to `cache` bytes."""

    def __init__(self, cache: int = CACHE) -> None:
        self._groups: dict[Xid, Group] = {}
        self._cache, self._bytes = cache, 0

    def __len__(self) -> int:
        return len(self._groups)

    def __repr__(self) -> str:
        return f"<PreparedGroups groups={len(self)} bytes={self._bytes}>"

    def get(self, xid: Xid) -> Group | None:
        return self._groups.get(xid)

    def add(self, xid: Xid, group: Group) -> None:
        self.remove(xid)
        self._groups[xid] = group
        self._bytes += _size(group)
        for other, waiting in self._groups.items():
            if self._bytes <= self._cache:
                return
            self._bytes -= _size(waiting)
            self._groups[other] = replace(waiting, rows=None)

    def remove(self, xid: Xid) -> None:
        """When the transaction was committed or rolled back."""
        group = self._groups.pop(xid, None)
        if group is not None:
            self._bytes -= _size(group)


def _size(group: Group) -> int:
    return 0 if group.rows is None else group.rows.nbytes

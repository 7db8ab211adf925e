"""What one look at the source's binlogs found: how far each cursor is from being purged. Values alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Left:
    """`files` and `bytes` between the oldest file's start and the cursor; `seconds` until the cursor's file may go,
    None while it is the newest, or is kept for ever."""

    files: int
    bytes: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ExpiryReport:
    """One look: the oldest file, how long the server keeps one (None: for ever), and what is left for each client, None
    for a cursor in none of the files. `twice`: the statement that doubles what is kept. The properties are those of the
    client that is nearest to the oldest file."""

    oldest: str
    keep_seconds: float | None
    clients: Mapping[int, Left | None]
    warning: str | None
    twice: str = ""

    @property
    def files_left(self) -> int | None:
        return min((found.files for found in self._found), default=None)

    @property
    def bytes_left(self) -> int | None:
        return min((found.bytes for found in self._found), default=None)

    @property
    def seconds_left(self) -> float | None:
        return min((found.seconds for found in self._found if found.seconds is not None), default=None)

    @property
    def _found(self) -> list[Left]:
        return [found for found in self.clients.values() if found is not None]

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ExpiryReport:
        clients = {int(client): Left(**found) if found else None for client, found in fields["clients"].items()}
        return cls(fields["oldest"], fields["keep_seconds"], clients, fields["warning"], fields.get("twice", ""))

    def to_dict(self) -> dict[str, Any]:
        clients = {str(client): asdict(found) if found else None for client, found in self.clients.items()}
        return {
            "oldest": self.oldest,
            "keep_seconds": self.keep_seconds,
            "clients": clients,
            "warning": self.warning,
            "twice": self.twice,
        }

"""What clients ask the Flight door for: the command of get_flight_info and the tickets of do_get, both JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from cdc_core.errors import ConfigError


class ClaimId(NamedTuple):
    """Which claim of all destinations."""

    destination: str
    client_id: int
    batch_id: int


@dataclass(frozen=True, slots=True)
class Read:
    """A read of one table of one claim: the command of get_flight_info, and a ticket without its `split`."""

    destination: str
    client_id: int
    batch_id: int
    table: str
    mode: str = "net"
    after: int | None = None
    splits: int = 1

    @property
    def claim(self) -> ClaimId:
        return ClaimId(self.destination, self.client_id, self.batch_id)

    def ticket(self, split: int) -> bytes:
        return json.dumps({**asdict(self), "split": split}).encode()


def read_command(command: bytes) -> Read:
    """The read that a command asks for. Raises ConfigError for a malformed command."""
    return _read(_object(command))


def read_ticket(ticket: bytes) -> tuple[Read, int]:
    """The read and the split that a ticket stands for. Raises ConfigError for a malformed ticket."""
    fields = _object(ticket)
    split = fields.pop("split", None)
    read = _read(fields)
    if not _is_int(split) or not 0 <= split < read.splits:
        raise _malformed("split", split)
    return read, split


def _read(fields: dict[str, Any]) -> Read:
    unknown = sorted(fields.keys() - Read.__dataclass_fields__.keys())
    missing = [key for key in ("destination", "client_id", "batch_id", "table") if key not in fields]
    if unknown or missing:
        raise _malformed(", ".join(unknown or missing), "an unknown field" if unknown else "no value")
    read = Read(**fields)
    fits = {
        "destination": isinstance(read.destination, str),
        "client_id": _is_int(read.client_id),
        "batch_id": _is_int(read.batch_id),
        "table": isinstance(read.table, str) and "." in read.table,
        "mode": read.mode in ("net", "changes"),
        "after": read.after is None or _is_int(read.after),
        "splits": _is_int(read.splits) and 1 <= read.splits <= 1024,
    }
    for name, fit in fits.items():
        if not fit:
            raise _malformed(name, getattr(read, name))
    return read


def _object(text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise _malformed("json", text[:100]) from error
    if not isinstance(fields, dict):
        raise _malformed("json", text[:100])
    return fields


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _malformed(place: str, value: object) -> ConfigError:
    return ConfigError(
        f"not a Flight command or ticket: {value!r}",
        place=place,
        hint='Ask with {"destination","client_id","batch_id","table"} and "mode", "after", "splits"; '
        "take tickets from the answer as they are.",
    )

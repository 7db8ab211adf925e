"""Plans of reads, kept while their claim lasts, so that the splits of one table are planned once.

Several threads may ask for the same plan: one makes it, the others wait for it. `sweep` forgets the plans of
claims that are gone. A failure is told to all who wait, and not kept.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

from cdc_core.errors import ConfigError, SluiceError


@dataclass(frozen=True, slots=True)
class Read:
    """What is asked for: one table of one claim. The command of get_flight_info, and all but `split` of a ticket."""

    destination: str
    client_id: int
    batch_id: int
    table: str
    mode: str = "net"
    after: int | None = None
    splits: int = 1

    def ticket(self, split: int) -> bytes:
        return json.dumps({**asdict(self), "split": split}).encode()


def read_command(command: bytes) -> Read:
    """Raises ConfigError when it is not what get_flight_info takes."""
    return _read(_object(command))


def read_ticket(ticket: bytes) -> tuple[Read, int]:
    """The read and the split. Raises ConfigError when the ticket is none of ours."""
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


class Plans:
    """A small cache of plans, the least used of which go first. `plan` makes one, `alive` raises RangeGone."""

    def __init__(self, plan: Callable[[Read], Any], alive: Callable[[Read], object], size: int = 32) -> None:
        self._plan = plan
        self._alive = alive
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[Read, Future[Any]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Plans {len(self._kept)} of {self._size}>"

    def get(self, read: Read) -> Any:
        """Raises RangeGone when the claim is gone, whatever is kept."""
        self._alive(read)
        with self._lock:
            future = self._kept.get(read)
            mine = future is None
            if future is None:
                future = self._kept[read] = Future()
            self._kept.move_to_end(read)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        if mine:
            self._make(read, future)
        return future.result()

    def sweep(self) -> None:
        """Forgets the plans whose claims are gone."""
        with self._lock:
            reads = list(self._kept)
        for read in reads:
            try:
                self._alive(read)
            except SluiceError:
                self._forget(read)

    def _make(self, read: Read, future: Future[Any]) -> None:
        try:
            future.set_result(self._plan(read))
        except BaseException as error:
            self._forget(read)
            future.set_exception(error)

    def _forget(self, read: Read) -> None:
        with self._lock:
            self._kept.pop(read, None)

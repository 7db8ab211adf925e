"""The lags of the last day: the highest value of each minute, in arrays of a fixed size. Memory only."""

from __future__ import annotations

import math
import threading
from array import array
from dataclasses import dataclass

from cdc_core.monitor.picture import ClientKey, Picture

MINUTES = 1440
_MOST = 2000  # clients: 23 MB
_NAN = float("nan")


@dataclass(slots=True)
class _Columns:
    nbytes: array[float]
    seconds: array[float]
    last: int  # the minute in which the client was seen last


class LagHistory:
    """One thread calls `add`, any thread the others."""

    def __init__(self) -> None:
        self._columns: dict[ClientKey, _Columns] = {}
        self._minute = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<LagHistory of {len(self._columns)} clients>"

    def add(self, picture: Picture) -> None:
        minute = int(picture.at // 60)
        with self._lock:
            self._begin(minute)
            for key, lag in picture.lags.items():
                if (columns := self._of(key, minute)) is not None:
                    columns.last = minute
                    _raise(columns.nbytes, minute, lag.nbytes)
                    _raise(columns.seconds, minute, lag.seconds)

    def _begin(self, minute: int) -> None:
        """Forgets what is a day old. A clock that was set back writes over what it wrote."""
        gone = range(self._minute + 1, minute + 1)[-MINUTES:] if self._minute else range(0)
        for columns in self._columns.values() if gone else ():
            for one in gone:
                columns.nbytes[one % MINUTES] = columns.seconds[one % MINUTES] = _NAN
        if gone:
            old = [key for key, columns in self._columns.items() if minute - columns.last >= MINUTES]
            for key in old:
                del self._columns[key]
        self._minute = minute

    def _of(self, key: ClientKey, minute: int) -> _Columns | None:
        if key not in self._columns:
            if len(self._columns) >= _MOST:
                return None
            self._columns[key] = _Columns(array("f", [_NAN]) * MINUTES, array("f", [_NAN]) * MINUTES, minute)
        return self._columns[key]

    def seconds(self, key: ClientKey, points: int) -> list[float | None]:
        """The day in so many points, the oldest first: the highest value of each, None where nothing is known."""
        with self._lock:
            columns = self._columns.get(key)
            return [] if columns is None else _points(columns.seconds, self._minute, points)

    def nbytes(self, key: ClientKey, points: int) -> list[float | None]:
        """The same of the bytes that waited."""
        with self._lock:
            columns = self._columns.get(key)
            return [] if columns is None else _points(columns.nbytes, self._minute, points)


def _raise(column: array[float], minute: int, value: float | None) -> None:
    at = minute % MINUTES
    if value is not None and not value <= column[at]:
        column[at] = value


def _points(column: array[float], minute: int, points: int) -> list[float | None]:
    first, size = (minute + 1) % MINUTES, MINUTES // points
    ordered = column[first:] + column[:first]
    bins = (ordered[at : at + size] for at in range(0, MINUTES, size))
    return [max((one for one in bin_ if not math.isnan(one)), default=None) for bin_ in bins]

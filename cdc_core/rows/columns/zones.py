"""`ZoneOffsets`: the instants of a zone's local times, in microseconds since 1970, many at once.

In spring a zone leaves times out: these have no instant. In autumn it has times twice: the first instant counts. Arrow
has the same conversion, but knows no summer time after 2037; Python's `zoneinfo` knows it, one value at a time. So its
offsets are looked up once for each day of the years that values have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from cdc_core.compiled.kernel import Longs

_EPOCH, _FIRST, _LAST = datetime(1970, 1, 1), 1, 9999
_SECOND, _DAY = 1_000_000, 86_400


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


EARLIEST, LATEST = _micros(datetime.min), _micros(datetime.max)  # that a TIMESTAMP of Delta holds


@dataclass(frozen=True, slots=True)
class ZoneOffsets:
    """A zone's offsets in some years. From the local time `walls[i]` and the instant `times[i]` on it is `offsets[i]`
    ahead of UTC."""

    walls: Longs
    times: Longs
    offsets: Longs

    @classmethod
    def of(cls, zone: str, years: Iterable[int]) -> ZoneOffsets:
        """Those of these years of local times, and around."""
        around = {min(max(year + more, _FIRST), _LAST) for year in years for more in (-1, 0, 1)}
        found = [change for year in sorted(around) for change in _changes(zone, year)] or [(0, 0)]
        walls, offsets = (np.array(column, np.int64) * _SECOND for column in zip(*found, strict=True))
        before = np.concatenate([offsets[:1], offsets[:-1]])
        return cls(walls, walls - np.maximum(before, offsets), offsets)

    def instants(self, local: Longs) -> tuple[Longs, npt.NDArray[np.bool_]]:
        """The instant of each local time, and whether the zone has the time."""
        offsets = self.offsets[_last(self.walls, local)]
        instants = local - offsets
        return instants, self.offsets[_last(self.times, instants)] == offsets


def _last(changes: Longs, at: Longs) -> npt.NDArray[np.intp]:
    """The number of the last change until then, or of the first one."""
    return np.maximum(np.searchsorted(changes, at, side="right") - 1, 0)


@cache
def _changes(zone: str, year: int) -> tuple[tuple[int, int], ...]:
    """From which local second of the year on the zone is how many seconds ahead of UTC; the first is its beginning. Of
    times that there are twice the first count."""
    known = ZoneInfo(zone)

    def offset(second: int) -> int:
        ahead = known.utcoffset(_EPOCH + timedelta(seconds=second))
        assert ahead is not None
        return ahead // timedelta(seconds=1)

    first = (date(year, 1, 1) - _EPOCH.date()).days
    last = (date(year, 12, 31) - _EPOCH.date()).days + (year < _LAST)
    found = [(first * _DAY, offset(first * _DAY))]
    for day in range(first, last):
        low, high = day * _DAY, (day + 1) * _DAY
        before, after = found[-1][1], offset(high)
        if before == after:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == before else (low, middle)
        found.append((high, after))
    return tuple(found)

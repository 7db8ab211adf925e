"""Sets of whole numbers as intervals `(first, last + 1)`: sorted, and with a gap between any two."""

from __future__ import annotations

from collections.abc import Iterable

Intervals = tuple[tuple[int, int], ...]


def joined(pairs: Iterable[tuple[int, int]]) -> Intervals:
    """The union of any pairs `(first, last + 1)`."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(pair for pair in pairs if pair[0] < pair[1]):
        if out and low <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], high)
        else:
            out.append((low, high))
    return tuple(out)


def without(all_of: Intervals, gone: Intervals) -> Intervals:
    """The numbers of `all_of` that are not in `gone`."""
    out, at = [], 0
    for low, high in all_of:
        while at < len(gone) and gone[at][1] <= low:
            at += 1
        here = at
        while here < len(gone) and gone[here][0] < high:
            out.append((low, gone[here][0]))
            low, here = max(low, gone[here][1]), here + 1
        out.append((low, high))
    return joined(out)


def count(intervals: Intervals) -> int:
    return sum(high - low for low, high in intervals)

"""Sets of whole numbers as intervals: sorted, apart from each other, each its first number and the one after it."""

from __future__ import annotations

from collections.abc import Iterable

Intervals = tuple[tuple[int, int], ...]


def joined(pairs: Iterable[tuple[int, int]]) -> Intervals:
    """Any pairs, brought into form."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(pair for pair in pairs if pair[0] < pair[1]):
        if out and low <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], high)
        else:
            out.append((low, high))
    return tuple(out)


def without(all_of: Intervals, gone: Intervals) -> Intervals:
    """What `all_of` has and `gone` has not."""
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

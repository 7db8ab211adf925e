"""Finds ranges of a table's key that are so much out of order that rewriting them in the order of the key pays.

Pure: a sample of the table's keys in, ranges out. A file spans the keys from its least to its greatest one. Files whose
spans do not overlap are in order. Of overlapping files, the heaviest set without an overlap counts as the order, and
the others are astray: every search for a range of keys reads them as well.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.maintain.shape import LARGE, PILE, SMALL

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RewriteLimits:
    """`ordered`: bytes from which on a table is kept in order. A range is rewritten if at least `least` bytes of it,
    and one byte of `share`, are astray: about `step` bytes in one commit, at most `most` each time. `small` and `file`:
    bytes of a small file, and of a written one."""

    ordered: int = 2 * LARGE
    least: int = SMALL
    share: int = 8
    step: int = 4 * LARGE
    most: int = 128 * LARGE
    small: int = SMALL
    file: int = LARGE


AS_SHIPPED = RewriteLimits()


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file: the least and the greatest first column of its keys, by its statistics, its bytes and its rows, also the
    rows that are marked as deleted."""

    name: str
    low: Any
    high: Any
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The keys whose first column is at least `low` and less than `high`; None without a bound. Its rows have about so
    many bytes, of which so many are astray. `whole`: no file reaches beyond it."""

    low: Any
    high: Any
    size: int
    astray: int
    files: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The slices to rewrite. `piled_up`: small files that are astray pile up, and rewriting the slices that they span
    does not pay yet."""

    slices: tuple[Slice, ...] = ()
    piled_up: bool = False


def depth(found: Mapping[str, KeyFile]) -> float:
    """Returns how many files share keys with a file, itself included: the mean over all files. 1.0 is in order, 0.0 is
    without files."""
    files = found.values()
    if not files:
        return 0.0
    lows, highs = sorted(one.low for one in files), sorted(one.high for one in files)
    shared = sum(max(1, bisect_left(lows, one.high) - bisect_right(highs, one.low)) for one in files)
    return shared / len(files)


def plan(
    sample: Sequence[tuple[Key, str]], files: Mapping[str, KeyFile], limits: RewriteLimits, share: float = 1.0
) -> Plan:
    """Returns the slices to rewrite. `sample` has keys of living rows, this share of all, each with its file's name."""
    rows = sorted(one for one in sample if one[1] in files)
    files = _living(files, Counter(name for _, name in rows), share)
    ordered = _ordered(rows, files)
    found = _cut(rows, files, ordered, limits.step)

    def is_astray(one: Slice) -> bool:
        return 0 < one.size <= one.astray * limits.share

    worth = [one for one in _joined(found, is_astray, limits.step) if one.astray >= limits.least]
    if sum(one.size < limits.small for one in files.values()) >= PILE:
        taken = {id(one) for one in found if any(_is_within(one, other) for other in worth)}
        alone = _joined(found, lambda one: id(one) not in taken and one.whole and one.size < limits.small, limits.file)
        worth += [one for one in alone if one.files > 1]
    chosen, left = list[Slice](), limits.most
    for one in sorted(worth, key=lambda one: one.astray / max(one.size, 1), reverse=True):
        if one.size <= left:
            chosen.append(one)
            left -= one.size
    loose = sum(one.size < limits.small and one.name not in ordered for one in files.values())
    return Plan(tuple(chosen), not chosen and loose >= PILE)


def _living(files: Mapping[str, KeyFile], counts: Mapping[str, int], share: float) -> Mapping[str, KeyFile]:
    """The files as large as their living rows."""
    living = {name: min(1.0, counts[name] / share / max(file.rows, 1)) for name, file in files.items()}
    return {name: replace(file, size=round(file.size * living[name])) for name, file in files.items()}


def _ordered(rows: Sequence[tuple[Key, str]], files: Mapping[str, KeyFile]) -> set[str]:
    """The heaviest set of files that do not overlap, by the sampled keys."""
    first, last = dict[str, Key](), dict[str, Key]()
    for key, name in rows:
        first.setdefault(name, key)
        last[name] = key
    names = sorted(last, key=lambda name: last[name])
    ends = [last[name] for name in names]
    best, taken = [0], list[int]()  # by how many of the names; and before which one the set goes on
    for at, name in enumerate(names):
        before = min(bisect_right(ends, first[name]), at)
        taken.append(before)
        best.append(max(best[at], best[before] + files[name].size))
    found, at = set[str](), len(names)
    while at:
        if best[at] == best[at - 1]:
            at -= 1
        else:
            found.add(names[at - 1])
            at = taken[at - 1]
    return found


def _cut(rows: Sequence[tuple[Key, str]], files: Mapping[str, KeyFile], ordered: set[str], step: int) -> list[Slice]:
    """Returns all keys in slices: cut where no file continues, and in between where a file of the order begins, or
    after `step` bytes."""
    counts = Counter(name for _, name in rows)
    seen = Counter[str]()
    found, low, size, astray, names, whole, going = list[Slice](), None, 0.0, 0.0, set[str](), True, 0
    before: Any = None
    for at, (key, name) in enumerate(rows):
        begins, closed = not seen[name], not going
        if at and key[0] != before and (closed or size >= step or (begins and name in ordered and size >= step / 2)):
            least = files[name].low
            high = least if begins and before < least <= key[0] else key[0]
            found.append(Slice(low, high, round(size), round(astray), len(names), whole and closed))
            low, size, astray, names, whole = high, 0.0, 0.0, set(), closed
        share = files[name].size / counts[name]
        size, astray = size + share, astray + (share if name not in ordered else 0.0)
        names.add(name)
        seen[name] += 1
        going += begins
        going -= seen[name] == counts[name]
        before = key[0]
    if rows:
        found.append(Slice(low, None, round(size), round(astray), len(names), whole))
    return found


def _joined(found: Sequence[Slice], fits: Callable[[Slice], bool], most: int) -> list[Slice]:
    """Neighbours that fit as one slice, of up to `most` bytes."""
    joined, last = list[Slice](), False
    for one in found:
        if not fits(one):
            last = False
        elif last and joined[-1].size + one.size <= most:
            had = joined[-1]
            joined[-1] = Slice(had.low, one.high, had.size + one.size, had.astray + one.astray,
                               had.files + one.files, had.whole and one.whole)  # fmt: skip
        else:
            joined.append(one)
            last = True
    return joined


def _is_within(one: Slice, other: Slice) -> bool:
    begins = other.low is None or (one.low is not None and one.low >= other.low)
    return begins and (other.high is None or (one.high is not None and one.high <= other.high))

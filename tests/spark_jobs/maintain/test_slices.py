"""Which ranges of a key are out of order: pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import pytest

from spark_jobs.maintain.slices import Key, KeyFile, Plan, RewriteLimits, depth, plan

LIMITS = RewriteLimits(ordered=0, least=1, share=8, step=400, most=10_000, small=10, file=100)
Files = Mapping[str, list[Key]]


def files_of(rows: Files) -> dict[str, KeyFile]:
    """A byte for each row."""
    return {name: KeyFile(name, min(keys)[0], max(keys)[0], len(keys), len(keys)) for name, keys in rows.items()}


def planned(rows: Files, limits: RewriteLimits = LIMITS) -> Plan:
    return plan([(key, name) for name, keys in rows.items() for key in keys], files_of(rows), limits)


def ints(*keys: Iterable[int]) -> dict[str, list[Key]]:
    return {f"f{number}": [(key,) for key in some] for number, some in enumerate(keys)}


def runs(count: int, size: int = 100) -> list[range]:
    """Files in the order of their keys."""
    return [range(number * size, number * size + size) for number in range(count)]


def rewritten(rows: Files, found: Plan) -> dict[str, list[Key]]:
    """The files after the plan: the rows of each slice in files of a hundred, in order."""
    kept = {name: list(keys) for name, keys in rows.items()}
    for number, part in enumerate(found.slices):
        there = []
        for name, keys in kept.items():
            inside = [
                key
                for key in keys
                if (part.low is None or key[0] >= part.low) and (part.high is None or key[0] < part.high)
            ]
            there += inside
            kept[name] = [key for key in keys if key not in set(inside)]
        there.sort()
        kept |= {f"n{number}-{at}": there[at : at + 100] for at in range(0, len(there), 100)}
    return {name: keys for name, keys in kept.items() if keys}


def test_what_is_in_order_is_left_alone() -> None:
    """Files whose keys follow each other give no slice to rewrite."""
    rows = ints(*runs(10))
    assert (depth(files_of(rows)), planned(rows)) == (1.0, Plan())
    assert (depth({}), plan([], {}, LIMITS)) == (0.0, Plan())


def test_depth_is_how_many_files_share_keys_with_one() -> None:
    """Itself included; files that meet in one key do not share it by their statistics alone."""
    assert depth(files_of(ints([0, 9], [0, 9], [0, 9]))) == 3.0
    assert depth(files_of(ints([0, 5], [5, 9], [9, 9]))) == 1.0
    assert depth(files_of(ints([0, 4], [5, 9], [0, 9]))) == 7 / 3


def test_a_first_column_of_few_values_is_in_order_by_the_others() -> None:
    """Files that share a value of the first column do not overlap by the whole key; one value is never cut."""
    keys = [(number // 500, number) for number in range(1000)]
    rows = {f"f{at}": keys[at : at + 100] for at in range(0, 1000, 100)}
    assert planned(rows) == Plan()
    mixed = {f"f{at}": keys[at::10] for at in range(10)}
    assert [(one.low, one.high) for one in sorted(planned(mixed).slices, key=lambda one: one.low or 0)] == [
        (None, 1),
        (1, None),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_table_comes_into_order_and_stays(seed: int) -> None:
    """Random files, some in order and some all over the table: once written as planned nothing is left to do, no row is
    lost, and what did not overlap is not touched."""
    rng = random.Random(seed)
    spread = rng.sample(range(5000, 10_000), rng.choice([0, 300, 1500]))
    rows = ints(*runs(50), *(sorted(set(range(at, at + 100)) - set(spread)) for at in range(5000, 10_000, 100)))
    rows |= {f"s{at}": [(key,) for key in spread[at : at + 100]] for at in range(0, len(spread), 100)}
    found = planned(rows)
    assert bool(found.slices) == (len(spread) == 1500)
    assert all(part.low is not None and part.low >= 5000 for part in found.slices)
    after = rewritten(rows, found)
    assert sorted(key for keys in after.values() for key in keys) == [(key,) for key in range(10_000)]
    assert planned(after).slices == ()
    assert all(after.get(f"f{at}") == rows[f"f{at}"] for at in range(50))


def test_work_is_bounded_and_goes_on_where_it_ended() -> None:
    """At most so many bytes each time, in commits of about a step; what is left is done the next time."""
    rng = random.Random(1)
    keys = rng.sample(range(4000), 4000)
    rows: dict[str, list[Key]] = ints(*(keys[at : at + 100] for at in range(0, 4000, 100)))
    limits = RewriteLimits(ordered=0, least=1, share=8, step=400, most=1500, small=10, file=100)
    for _ in range(6):
        found = planned(rows, limits)
        assert sum(part.size for part in found.slices) <= 1500
        assert all(part.size <= 401 for part in found.slices)
        if not found.slices:
            break
        rows = rewritten(rows, found)
    assert found == Plan()
    assert depth(files_of(rows)) == 1.0


def test_rows_that_are_deleted_do_not_count() -> None:
    """A file all over the table whose rows are deleted but for a few is no reason to rewrite others."""
    rows: dict[str, list[Key]] = ints(*(range(at, at + 200, 2) for at in range(0, 2000, 200)))
    wide = [(key,) for key in range(1, 2000, 4)]
    files = files_of(rows | {"wide": wide})
    sample = [(key, name) for name, keys in rows.items() for key in keys]
    assert plan([*sample, *((key, "wide") for key in wide)], files, LIMITS).slices
    assert plan([*sample, *((key, "wide") for key in wide[::20])], files, LIMITS) == Plan()


def test_small_files_in_order_become_large_ones_in_order() -> None:
    """Those of a table that grows at its end; nothing else is written."""
    rows = ints(*runs(10), *(range(1000 + at, 1000 + at + 5) for at in range(0, 100, 5)))
    (part,) = planned(rows).slices
    assert (part.low, part.high, part.size, part.astray, part.files) == (1000, None, 100, 0, 20)
    assert planned(rewritten(rows, planned(rows))) == Plan()
    assert planned(ints(*runs(10), range(1000, 1005), range(1005, 1010))) == Plan()


def test_small_files_all_over_a_large_table_pile_up() -> None:
    """To rewrite the whole table for them does not pay; they become one file."""
    rows = ints(*(range(at, at + 1000, 2) for at in range(0, 20_000, 1000)))
    rows |= {f"s{at}": [(at * 10 + 1,), (19_001 + 10 * at,)] for at in range(20)}
    assert planned(rows) == Plan((), piled_up=True)

"""spark_jobs.as_of.contents: which places a version has, by the notes of commits alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from spark_jobs.as_of.batches import Batches, NotedBatch, Place
from spark_jobs.as_of.contents import NEVER, NotedCommit, Stretch, stretches, without

OWNER = {"destination": "d", "client_id": 1, "table": "shop.t"}
BATCHES = Batches([NotedBatch(0, at, at + 100) for at in range(0, 500, 100)], {0: 0})


def noted(number: int, /, epoch: int = 0, *, dropped: bool = False, **note: Any) -> NotedCommit:
    return NotedCommit(number, {**OWNER, "epoch": epoch, **note}, "WRITE", dropped=dropped)


def batch(version: int, low: int, at: int, epoch: int = 0) -> NotedCommit:
    return noted(version, epoch, counts={}, after=None, low=low, version=at)


def upkeep(version: int, operation: str = "OPTIMIZE") -> NotedCommit:
    return NotedCommit(version, operation=operation)


def found(commits: Sequence[NotedCommit], batches: Batches = BATCHES) -> list[tuple[int, list[tuple[int, int]]]]:
    """By version, the ranges of places on the first server."""
    return [
        (one.version, ranges(one)) for one in stretches(OWNER, [upkeep(0, "CREATE TABLE"), *commits], None, batches)
    ]


def ranges(stretch: Stretch) -> list[tuple[int, int]]:
    return [(low.version, high.version) for low, high in stretch.exact if low.server == 0]


def test_a_version_lasts_until_the_next_rows_may_begin() -> None:
    """The last one up to the end of the last batch."""
    assert found([batch(1, 0, 100), batch(2, 200, 300)]) == [(0, []), (1, [(100, 200)]), (2, [(300, 500)])]


def test_commits_that_change_no_row_give_newer_versions() -> None:
    """A fence, upkeep, a repair, rows of another program: the newest counts."""
    same = [
        upkeep(2, "SET TBLPROPERTIES"),
        NotedCommit(3, {"repair": {}}, "MERGE"),
        upkeep(4, "VACUUM END"),
        upkeep(5, "UPDATE"),
    ]
    assert found([batch(1, 0, 100), *same]) == [(0, []), (5, [(100, 500)])]


def test_a_column_that_comes_before_its_statement_is_in_no_version() -> None:
    """Until the commit that says why it came."""
    statement = noted(3, ddl="alter", version=250)
    assert found([batch(1, 0, 100), upkeep(2, "ADD COLUMN"), statement]) == [
        (0, []),
        (1, [(100, 249)]),
        (3, [(250, 500)]),
    ]


def test_a_renamed_table_is_gone_and_its_target_begins() -> None:
    """Both commits have the same kind of note."""
    old = stretches(OWNER, [batch(0, 0, 100), noted(1, ddl="rename", version=250, dropped=True)], None, BATCHES)
    assert [(one.content.there, ranges(one)) for one in old if one.content] == [(False, [(250, 500)])]
    assert found([noted(1, ddl="rename", version=250)]) == [(0, []), (1, [(250, 500)])]


def test_a_cascade_takes_the_place_of_its_batch() -> None:
    """Rows that a foreign key changed came after those of the batch, and of the table's own before it."""
    cascade = noted(3, cascade={"high": 300}, low=200, version=300)
    assert found([batch(1, 0, 100), batch(2, 200, 300), cascade]) == [
        (0, []),
        (1, [(100, 200)]),
        (2, []),
        (3, [(300, 500)]),
    ]
    assert found([batch(1, 0, 100), noted(2, cascade={"high": 350}, low=200, version=300)]) == [
        (0, []), (1, [(100, 200)]), (2, [(350, 500)]),
    ]  # fmt: skip
    unknown = noted(2, cascade={"high": None}, low=200, version=300)
    assert found([batch(1, 0, 100), unknown, batch(3, 300, 400)])[2:] == [(2, []), (3, [])]


def test_what_lies_between_doubtful_places_is_left_out() -> None:
    """The ends are not: rows that were looked up are at the latest of the second one."""
    at = [Place(0, version) for version in range(10)]
    ranges = ((at[1], at[8]), (at[2], at[3]), (at[9], at[9]))
    assert without(ranges, [(at[3], at[6])]) == ((at[1], at[3]), (at[6], at[8]), (at[2], at[3]), (at[9], at[9]))
    assert without(ranges, [(at[0], Place(0, NEVER))]) == ()


def test_a_copy_is_exact_from_its_end_on() -> None:
    """What it has beyond its beginning comes again."""
    copy = noted(2, copy={"high": "bin.000000:250"}, version=200)
    assert found([batch(1, 0, 100), copy, batch(3, 200, 300)])[1:] == [(1, [(100, 100)]), (2, []), (3, [(300, 500)])]


def test_a_copy_says_itself_how_far_its_rows_go() -> None:
    """Changes were laid over them. The table's properties, which say it too, come in a later commit or never."""
    copy = noted(2, copy={"high": "bin.000000:250", "has": 300, "may_have": 320}, version=200)
    assert found([batch(1, 0, 100), copy])[1:] == [(1, [(100, 100)]), (2, [(320, 500)])]


def test_commits_of_another_client_say_no_place() -> None:
    """Nor do those after them, until a copy."""
    other = NotedCommit(2, {**OWNER, "client_id": 2, "epoch": 0, "counts": {}, "version": 200}, "WRITE")
    copy = noted(4, copy={"high": ""}, version=400)
    assert found([batch(1, 0, 100), other, batch(3, 200, 300), copy])[2:] == [(2, []), (3, []), (4, [(400, 500)])]


@pytest.mark.parametrize(("left", "first", "later"), [(500, [(0, 300)], [(100, 300)]), (400, [], []), (None, [], [])])
def test_a_table_goes_on_at_another_server_by_gtid(
    left: int | None, first: list[tuple[int, int]], later: list[tuple[int, int]]
) -> None:
    """If it was not ahead of the cursor that was left; otherwise what it has may come again, at other places."""
    batches = Batches([*BATCHES.batches, NotedBatch(1, 0, 300)], {0: 0, 1: 1}, {1: left} if left is not None else {})
    commits = [upkeep(0, "CREATE TABLE"), batch(1, 400, 500)]
    (_, one) = stretches(OWNER, commits, None, batches)
    assert [(low.version, high.version) for low, high in one.exact if low.server == 1] == first
    (*_, last) = stretches(OWNER, [*commits, batch(2, 0, 100, epoch=1)], None, batches)
    assert [(low.version, high.version) for low, high in last.exact] == later


def test_a_range_that_a_reset_skipped_has_no_place() -> None:
    """Its rows were never read; before and after it the table is as it is."""
    batches = Batches([NotedBatch(0, 0, 100), NotedBatch(1, 300, 400)], {1: 0})
    assert found([batch(1, 0, 100)], batches) == [(0, []), (1, [(100, 100), (300, 400)])]


def test_a_missed_batch_ends_the_places_of_a_table() -> None:
    """It stopped there."""
    batches = Batches(BATCHES.batches, {0: 0}, {}, {"shop.t": [NotedBatch(0, 300, 400)]})
    assert found([batch(1, 0, 100)], batches) == [(0, []), (1, [(100, 300)])]
    assert Place(0, 300) < Place(0, 301) < Place(1, 0)

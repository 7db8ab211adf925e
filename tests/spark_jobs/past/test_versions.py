"""Which versions have a span's changes, by the notes of commits written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_jobs.lake.state import DeltaCommit
from spark_jobs.past.images import LakeKnows, choose
from spark_jobs.past.versions import MadeVersions, made_versions

OWNER = {"destination": "d", "client_id": 1, "table": "shop.t"}


def commit(number: int, operation: str = "MERGE", /, **note: Any) -> DeltaCommit:
    """A commit with the note of the table's owner; of epoch 1 if none is given."""
    known = json.dumps({**OWNER, "epoch": 1, **note}) if note else ""
    return DeltaCommit(number, known, {"numTargetRowsInserted": 3}, operation)


def batch(number: int, low: int, high: int, /, **more: Any) -> DeltaCommit:
    return commit(number, low=low, after=None, version=high, counts={}, **more)


def made(*commits: DeltaCommit, start: int = 100, end: int = 200) -> MadeVersions | None:
    """The versions for the changes after `start` up to `end` of epoch 1. `commits` are the oldest first."""
    return made_versions(reversed(commits), OWNER, 1, start, end)


class TestMadeVersions:
    def test_one_batch(self) -> None:
        """A batch's commit is found between those before and after it, with the version before and Delta's counts."""
        found = made(commit(0, "CREATE TABLE"), batch(1, 0, 100), batch(2, 100, 200), batch(3, 200, 300))
        assert found is not None
        assert (found.before, found.after, found.others, found.made[0].counts) == (1, 2, "", (3, 0, 0))

    def test_several_batches_and_upkeep(self) -> None:
        """Upkeep and properties between them are no other changes. A DDL statement of the span is one of its own."""
        found = made(
            batch(4, 0, 100), batch(5, 100, 150), commit(6, "OPTIMIZE"), commit(7, "SET TBLPROPERTIES"),
            commit(8, "CHANGE COLUMN", version=160, ddl="alter", text="ALTER TABLE t ..."), batch(9, 150, 200),
        )  # fmt: skip
        assert found is not None
        assert [(one.version, one.kind) for one in found.made] == [(5, "batch"), (8, "ddl"), (9, "batch")]
        assert (found.before, found.after, found.others) == (4, 9, "")

    @pytest.mark.parametrize(
        ("commits", "why"),
        [
            ([batch(1, 0, 250)], "changes of other batches"),
            ([commit(1, version=150, log={"after": 20})], "changes of other batches"),
            ([batch(1, 100, 150), commit(2, "WRITE"), batch(3, 150, 200)], "version 2 is another change: WRITE"),
            ([batch(1, 100, 150), commit(2, version=150, repair={}), batch(3, 150, 200)], "a repair"),
            ([batch(1, 0, 90), commit(2, version=180, copy={})], "was reloaded"),
        ],
    )
    def test_other_changes(self, commits: list[DeltaCommit], why: str) -> None:
        """Versions that have other changes too say which."""
        found = made(*commits)
        assert found is not None
        assert why in found.others

    def test_commits_are_gone(self) -> None:
        """Where the commits begin within the span, the versions of its beginning are not known."""
        found = made(batch(7, 150, 180), batch(8, 180, 200))
        assert found is not None
        assert found.others == "the table's Delta log has no commits before version 7 any more"
        for whole in (made(batch(7, 100, 180), batch(8, 180, 200)), made(batch(0, 150, 180), batch(1, 180, 200))):
            assert whole is not None
            assert whole.others == ""

    def test_no_commit(self) -> None:
        """Changes of before, of after, of another epoch or another table are none of the span's."""
        assert made(batch(1, 0, 100), batch(2, 200, 300)) is None
        assert made(batch(1, 100, 200, epoch=0), batch(2, 100, 200, epoch=2)) is None
        assert made(batch(1, 100, 200, table="shop.u")) is None
        assert made() is None

    def test_later_reload(self) -> None:
        """A reload after the span leaves the versions before it as they were."""
        found = made(batch(1, 0, 100), batch(2, 100, 200), commit(3, version=250, copy={}))
        assert found is not None
        assert (found.before, found.after, found.others) == (1, 2, "")

    def test_first_version(self) -> None:
        """A table that began with the batch has no version before it."""
        found = made(batch(0, 100, 200))
        assert found is not None
        assert found.before is None


class TestChoose:
    @pytest.mark.parametrize(
        ("known", "origin", "words"),
        [
            (LakeKnows(True, made(batch(1, 100, 200)), log_end=200), "log", ""),
            (LakeKnows(True, made(batch(1, 100, 200)), log_end=150), "versions", "only the first and the last form"),
            (LakeKnows(True, made(batch(1, 100, 200)), log_end=200, log_lacks=150), "versions", ""),
            (LakeKnows(True, made(batch(1, 100, 200))), "versions", ""),
            (LakeKnows(True, made(batch(1, 0, 200)), log_end=150), "none", "has not got all"),
            (LakeKnows(True, made(batch(1, 0, 200))), "none", "changes of other batches"),
            (LakeKnows(True, None), "none", "no commit"),
            (LakeKnows(True, made(batch(1, 100, 200)), log_end=200, hides=True), "none", "what they hide"),
            (LakeKnows(False, None), "none", "does not have the table"),
        ],
    )
    def test_order(self, known: LakeKnows, origin: str, words: str) -> None:
        """The log comes first if it has all of the span, then versions that have nothing else; no rows of other
        rules."""
        found, unknown = choose(known, 100, 200)
        assert found == origin
        assert words in unknown

"""What is wrong with an executor, by its facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.check.findings import Finding, Looked, findings
from spark_jobs.check.on_executor import Asked, Facts

ASKED = Asked(("deltalake",), "m", "/lake/_sluice/check/1", "word", {}, "grpc://door:1", "secret", "", "db:3306")
HERE = Facts("here", "3.11.7", "/python", {"deltalake": "1.6.6"}, "c0de", "", "", "here", "", "", 100.0)
THERE = replace(HERE, host="one", file="one")


def found(*facts: Facts, seen: tuple[str, ...] = ("one",)) -> list[Finding]:
    return findings(ASKED, HERE, [Looked(one, 99.0, 101.0) for one in facts], seen)


def test_executors_that_are_alike_share_a_line() -> None:
    """Nothing is wrong, and each line names both."""
    all_found = found(THERE, replace(THERE, host="two"))
    assert [one.what for one in all_found] == [
        *("Python", "deltalake", "this project", "the lake", "the Flight door", "the source", "the clock")
    ]
    assert all(one.good and one.where == ("one", "two") for one in all_found)


@pytest.mark.parametrize(
    ("facts", "what", "words"),
    [
        (replace(THERE, versions={"deltalake": None}), "deltalake", "not installed, and 1.6.6 here"),
        (replace(THERE, versions={"deltalake": "1.0"}), "deltalake", "1.0, and 1.6.6 here"),
        (replace(THERE, code=""), "this project", "not installed"),
        (replace(THERE, code="01d"), "this project", "another version than here"),
        (replace(THERE, imports="ImportError: no numpy"), "this project", "no numpy"),
        (replace(THERE, lake="OSError: denied"), "the lake", "denied"),
        (replace(THERE, file="unseen"), "the lake", "not visible here"),
        (replace(THERE, door="refused"), "the Flight door", "refused"),
        (replace(THERE, source="refused"), "the source", "refused"),
        (replace(THERE, clock=107.0), "the clock", "6 s ahead"),
        (replace(THERE, clock=90.0), "the clock", "9 s behind"),
    ],
)
def test_what_is_wrong_is_named_with_its_executor_and_a_remedy(facts: Facts, what: str, words: str) -> None:
    """Alone: the other executor is as it should be."""
    (wrong,) = [one for one in found(replace(facts, host="bad"), THERE) if not one.good]
    assert (wrong.what, wrong.where) == (what, ("bad",))
    assert words in wrong.found
    assert wrong.remedy.endswith(".")


def test_a_clock_between_question_and_answer_is_right() -> None:
    """A slow answer says nothing of a clock."""
    slow = Looked(replace(THERE, clock=150.0), 99.0, 200.0)
    assert slow.skew == 0
    assert "secret" not in repr(ASKED)

"""The checks before the ack: pure functions from a table's result to a verdict.

With a key, the statement makes the lake equal to the source, whatever it finds there. Rows that differed from what the
source's changes presume are counted: that is a warning, and the table goes on. A contradiction that no statement
repairs blocks the table: a key that is there twice, copies that do not add up, a commit that cannot be judged. Rows
that come again after a rewind presume nothing. Every commit with rows of the claim is judged, also commits of earlier
tries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cdc_core.contract.claim import Claim
from cdc_core.position import split_version
from spark_jobs.apply.commits import Commit
from spark_jobs.apply.result import TableResult
from spark_jobs.expectations.results import ExpectationResult

ROWS_ADD_UP = "rows_add_up"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one check on one table of a batch. `figures` are its numbers and positions. `warns`: a failed
    check does not block the table."""

    table: str
    check: str
    passed: bool
    text: str
    figures: Mapping[str, int | str | list[str]]
    warns: bool = False

    @property
    def blocks(self) -> bool:
        """Whether the table must take no more changes."""
        return not self.passed and not self.warns


@dataclass(frozen=True, slots=True)
class Check:
    """A check's name and meaning, and the function that judges a table's share of a claim."""

    name: str
    description: str
    judge: Callable[[Claim, TableResult], Verdict]


def key_unique(_claim: Claim, result: TableResult) -> Verdict:
    """No key met more than one row of the table."""
    commits = result.commits if result.decision.keyed else ()
    wrong = [
        f"{commit.written} keys matched {commit.inserted + commit.updated} rows"
        for commit in commits
        if commit.inserted + commit.updated != commit.written
    ]
    wrong += [
        f"{commit.deleted} rows were deleted for {commit.source.net_deletes} deleted keys"
        for commit in commits
        if commit.deleted > commit.source.net_deletes
    ]
    keys = sum(commit.written for commit in commits)
    return _verdict("key_unique", result, wrong, f"{keys} keys, each once in its table", {"keys": keys})


def position_monotone(claim: Claim, result: TableResult) -> Verdict:
    """The table is at the batch's end now, and what earlier tries committed can still be judged."""
    wrong = []
    end = claim.end.version()
    if result.commit is not None and result.commit.end != end:
        wrong.append(f"applied {result.commit.end}, not {end}")
    for commit in result.commits:
        if commit.after is not None and commit.after >= commit.end:
            number, offset = split_version(commit.after)
            wrong.append(f"applied {commit.end}, but the lake was at journal {number}:{offset}")
    if result.earlier.unjudged:
        wrong.append(result.earlier.unjudged)
    places = {"start": str(claim.start), "end": str(claim.end)}
    return _verdict("position_monotone", result, wrong, f"{claim.start} to {claim.end}", places)


def rows_add_up(_claim: Claim, result: TableResult) -> Verdict:
    """What Delta counted agrees with what the source did. With a key, a difference is a warning."""
    keyed, commits = result.decision.keyed, result.commits
    doubt = result.doubt
    figures: dict[str, int | str] = {
        "inserted": sum(commit.inserted for commit in commits),
        "deleted": sum(commit.deleted for commit in commits),
    }
    if keyed:
        figures |= {"inserts_met": doubt.met, "changes_missed": doubt.missed}
        wrong = [doubt.text] if doubt else []
    else:
        wrong = [text for commit in commits if (text := _disagreement(commit))]
    agreed = "rows in the lake and changes at the source agree"
    if any(commit.soft for commit in commits):
        agreed = "soft deletes keep their rows, so counts prove nothing: sluice verify compares the rows"
    elif any(commit.held for commit in commits):
        agreed = "rows wait in the quarantine, so counts prove nothing: sluice verify compares the rows"
    return replace(_verdict(ROWS_ADD_UP, result, wrong, agreed, figures), warns=keyed)


CHECKS = (
    Check("key_unique", "Each changed key exists once.", key_unique),
    Check("position_monotone", "The table only moves forward with its batches.", position_monotone),
    Check(ROWS_ADD_UP, "The lake had the rows that the source's changes expect.", rows_add_up),
)


def judge(claim: Claim, result: TableResult) -> list[Verdict]:
    """The verdict of every check on one table of a batch, and of every expectation."""
    return [check.judge(claim, result) for check in CHECKS] + expected(result.table, result.expected)


def expected(table: str, results: Sequence[ExpectationResult]) -> list[Verdict]:
    """The verdicts of a table's expectations. One that stopped its table blocks; one that did not is a warning."""
    return [Verdict(table, one.name, one.passed, _said(one), _figures(one), warns=not one.stops) for one in results]


def _said(found: ExpectationResult) -> str:
    if found.why:
        return f"it cannot be evaluated: {found.why}"
    said = [f"{found.bad} of {found.rows} rows fail" if found.bad else f"{found.rows} rows pass"]
    said += [f"such as {'; '.join(found.keys[:3])}"] if found.bad and found.keys else []
    said += [f"{found.waiting} rows wait in the quarantine"] if found.waiting else []
    said += [f"accepted: {found.accepted}"] if found.accepted else []
    return ", ".join(said)


def _figures(found: ExpectationResult) -> dict[str, int | str | list[str]]:
    counts: dict[str, int | str | list[str]] = {"rows": found.rows, "bad_rows": found.bad, "quarantined": found.waiting}
    said: dict[str, int | str | list[str]] = {
        "keys": list(found.keys),
        "accepted": found.accepted,
        "why": found.why,
    }
    return counts | {name: value for name, value in said.items() if value}


def _disagreement(commit: Commit) -> str:
    """How the lake's copies of rows without a key contradict the source's, "" when they do not."""
    grown, expected = commit.inserted - commit.deleted, commit.source.inserts - commit.source.deletes
    return "" if grown == expected else f"grew by {grown} rows in the lake, by {expected} at the source"


def _verdict(
    check: str, result: TableResult, wrong: list[str], agreed: str, figures: Mapping[str, int | str]
) -> Verdict:
    return Verdict(result.table, check, not wrong, "; ".join(wrong) or agreed, figures)

"""Which versions of a table a part of its changes made, by the notes of its commits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.lake.state import DeltaCommit

_SAME_ROWS = ("upkeep", "retention", "remade")  # notes of commits after which the table has the same rows
_KEEPS = (
    *("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "OPTIMIZE", "VACUUM", "REORG", "CLUSTER BY", "COMPUTE STATS"),
    *("UPGRADE PROTOCOL", "ADD FEATURE", "DROP FEATURE", "FSCK", "CREATE TABLE", "ADD COLUMNS", "CHANGE COLUMN"),
    *("RENAME COLUMN", "DROP COLUMNS"),
)  # how operations begin that change no rows


@dataclass(frozen=True, slots=True)
class MadeVersion:
    """A version that a commit made of the changes after version `low` of the epoch up to `high`. `kind`: batch, log (a
    merge of the change log), ddl, copy or cascade; `text`: the DDL statement. `counts`: the rows that Delta inserted,
    updated and deleted."""

    version: int
    kind: str
    low: int
    high: int
    counts: tuple[int, int, int] = (0, 0, 0)
    text: str = ""


@dataclass(frozen=True, slots=True)
class MadeVersions:
    """The versions that have the changes of a span, the oldest first, at least one. `others`: why the versions between
    have other changes too, "" if they have none."""

    made: tuple[MadeVersion, ...]
    others: str = ""

    @property
    def before(self) -> int | None:
        """The version before the first of them; None if the table began with it."""
        return self.made[0].version - 1 if self.made[0].version else None

    @property
    def after(self) -> int:
        return self.made[-1].version


def made_versions(
    commits: Iterable[DeltaCommit], owner: Mapping[str, Any], epoch: int, start: int, end: int
) -> MadeVersions | None:
    """Returns the versions with the changes of `epoch` after version `start` up to `end`, or None if no commit says
    that it has them. `commits` are the table's, the latest first, and are read no further than needed; `owner`: the
    destination, the client and the table, as in the notes."""
    found, foreign, others, earliest = list[MadeVersion](), "", "", 0
    for commit in commits:
        one, earliest = _made(commit, owner, epoch), commit.version
        if one is not None and one.high <= start:
            break
        if one is None and _is_earlier(commit, owner, epoch):
            break
        if one is None:
            if found and not _keeps_rows(commit):
                foreign = foreign or f"version {commit.version} is another change: {_what(commit)}"
        elif one.low < end:
            found.append(one)
            others, foreign = others or foreign, ""
    else:  # no commit from before the span is there
        if found and earliest and found[-1].low > start:
            others = others or f"the table's Delta log has no commits before version {earliest} any more"
    if not found:
        return None
    found.reverse()
    return MadeVersions(tuple(found), others or _beyond(found, start, end))


def _beyond(made: list[MadeVersion], start: int, end: int) -> str:
    if any(one.kind == "copy" for one in made):
        return "the table was reloaded, so that all of its rows were replaced"
    wide = next((one for one in made if one.low < start or one.high > end), None)
    return f"version {wide.version} has changes of other batches too" if wide else ""


def _made(commit: DeltaCommit, owner: Mapping[str, Any], epoch: int) -> MadeVersion | None:
    note = commit.note
    if not owner.items() <= note.items() or note.get("epoch") != epoch or "version" not in note:
        return None
    high, counts = int(note["version"]), (commit.inserted, commit.updated, commit.deleted)
    if "counts" in note:
        low = max(note.get("after") or 0, note.get("low") or 0)
        return MadeVersion(commit.version, "batch", low, high, counts)
    if "log" in note:
        return MadeVersion(commit.version, "log", int(note["log"]["after"] or 0), high, counts)
    if "cascade" in note:
        return MadeVersion(commit.version, "cascade", int(note["low"]), high, counts)
    if "ddl" in note:
        return MadeVersion(commit.version, "ddl", high - 1, high, counts, str(note.get("text", "")))
    if "copy" in note:  # versions before a later one are still there
        return MadeVersion(commit.version, "copy", high - 1, high, counts)
    return None


def _is_earlier(commit: DeltaCommit, owner: Mapping[str, Any], epoch: int) -> bool:
    """Whether the commit has changes of an epoch before: none before it has changes of this one."""
    note = commit.note
    return owner.items() <= note.items() and int(note.get("epoch", epoch)) < epoch


def _keeps_rows(commit: DeltaCommit) -> bool:
    return any(name in commit.note for name in _SAME_ROWS) or commit.operation.startswith(_KEEPS)


def _what(commit: DeltaCommit) -> str:
    known = {"repair": "a repair", "undo": "an undo"}
    return next((text for name, text in known.items() if name in commit.note), commit.operation or "unknown")

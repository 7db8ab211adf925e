"""How far a cursor is behind its source, and how near its binlog file is to being purged. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.errors import PositionError
from cdc_core.monitor.sources import SourceView
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.source.journals import Journals, is_older


@dataclass(frozen=True, slots=True)
class ClientLag:
    """None is unknown, and `why` says the reason. `files`: from the cursor's to the newest. `left_files`: how many
    older ones the source has. `left_seconds`: until it may purge the cursor's file at the earliest, None where it may
    not. `age` is that of the cursor's transaction."""

    nbytes: int | None = None
    files: int | None = None
    seconds: float | None = None
    age: float | None = None
    left_files: int | None = None
    left_seconds: float | None = None
    purged: bool = False
    why: str = ""


def lag_of(cursor: LogPosition | None, source: SourceView | None, now: float, level: float = 0.0) -> ClientLag:
    """`now` and `level`, when the client was last seen to have read everything, are in epoch seconds: what it has not
    read is no older."""
    if cursor is None:
        return ClientLag(why="it has no cursor")
    at = cursor.postion
    age = max(0.0, now - at.timestamp / 1000) if at.timestamp else None
    if source is None or source.journals is None:
        return ClientLag(age=age, why=source.error if source else "the source was not asked yet")
    found = source.journals.index(at)
    if found is None:
        return _elsewhere(at, source.journals, age)
    nbytes = max(0, source.journals.distance(at, source.journals.end) or 0)  # it may have read on since
    files = len(source.journals.logs) - 1 - found
    left = age is not None and source.keep and files
    return ClientLag(
        nbytes=nbytes,
        files=files,
        seconds=_seconds(age, now - level if level else None, nbytes),
        age=age,
        left_files=found,
        left_seconds=source.keep - age if left and age is not None else None,
    )


def _seconds(age: float | None, since_level: float | None, nbytes: int) -> float | None:
    if not nbytes:
        return 0.0
    known = [one for one in (age, since_level) if one is not None]
    return max(0.0, min(known)) if known else None


def _elsewhere(at: EntryPosition, journals: Journals, age: float | None) -> ClientLag:
    """The source does not list the cursor's file."""
    try:
        if is_older(at.journal_name, journals.logs[0].name):
            return ClientLag(age=age, purged=True, why="the source has purged the cursor's binlog file")
    except PositionError:
        pass  # the server's own files have no number
    return ClientLag(age=age, why="the source has no such binlog file; another server may answer at its address")

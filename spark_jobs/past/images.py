"""Which rows a span of changes changed in a table, before and after, from wherever that can be had in the lake.

One interface for all who ask: `past_images` chooses the source and says what it cannot know; `PastImages.read` yields
images in the form of a change log. The change log comes first, which has every change in its order. Otherwise the
versions of the table around the span are compared: then a row that changed twice shows its first and its last form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

import pyarrow as pa
from deltalake.exceptions import DeltaError

from cdc_core.errors import SluiceError
from spark_jobs.changes.version_range import VersionRange
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.seen_columns import noted_rules
from spark_jobs.lake.state import PRIMARY_KEY, TableState
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.landing.log import OpenedLog
from spark_jobs.past.files import MOST_BYTES, TwoVersions
from spark_jobs.past.logged import LoggedImages
from spark_jobs.past.noted import Span
from spark_jobs.past.versions import MadeVersions, made_versions

_Found = TypeVar("_Found")
Origin = Literal["log", "versions", "none"]


@dataclass(frozen=True, slots=True)
class PastImages:
    """The images of `table` in a span. `origin`: from what they are read; `unknown`: what that cannot show, or why
    there is nothing; `versions`: the versions of the table that have the changes, None if no commit says so."""

    table: str
    key: tuple[str, ...]
    origin: Origin
    unknown: str
    versions: MadeVersions | None
    read: Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class LakeKnows:
    """What the lake has of a table for a span. `log_end`: the version of the epoch up to which the change log has its
    changes, None without a log; `log_lacks`: the version up to which some are missing in it. `hides`: rows of that time
    may show what rules hide now."""

    state: bool
    versions: MadeVersions | None
    log_end: int | None = None
    log_lacks: int = 0
    hides: bool = False


def choose(known: LakeKnows, start: int, end: int) -> tuple[Origin, str]:
    """Returns the source for the images after version `start` up to `end`, and what it cannot know. Pure."""
    if known.hides:
        return (
            "none",
            "rules make the table's rows, and it was reloaded since: rows of that time may show what they hide",
        )
    if known.log_end is None:
        missing = ""
    elif known.log_end < end:
        missing = "the change log has not got all of these changes yet"
    elif known.log_lacks > start:
        missing = "the change log no longer has all of these changes, or began later"
    else:
        return "log", ""
    versions = known.versions
    if versions is not None and not versions.others:
        return "versions", "of a row that changed several times, only the first and the last form; no position and time"
    if versions is not None:
        return "none", "; ".join(filter(None, [missing, versions.others]))
    if not known.state:
        return "none", missing or "the lake does not have the table"
    return "none", missing or "no commit that the table's Delta log still has brought changes of this range"


def past_images(
    tables: ClientTables, table: str, span: Span, most_bytes: int = MOST_BYTES, most_read: int | None = None
) -> PastImages:
    """Returns the images of a table in a span. An error of one source is why it cannot answer: it is not raised. To
    compare versions, at most so many bytes of rows are held, and of files read."""
    part = span.of_table(table)
    start, end, path = part.start.version(), part.end.version(), tables.path(table)
    log, no_log = _tried(lambda: tables.log(table))
    state, no_state = _tried(lambda: tables.lake.state(path, ""))
    owner = {"destination": tables.destination, "client_id": tables.client_id, "table": table}
    versions, no_versions = (
        _tried(lambda: made_versions(tables.lake.commits(path), owner, span.epoch, start, end)) if state else (None, "")
    )
    log_end = log.end(span.epoch) if log else None
    log_lacks = (log.lacks_to(span.epoch) or 0) if log else 0
    known = LakeKnows(
        state is not None, versions, None if log is None else log_end or 0, log_lacks, _hides(state, part)
    )
    origin, unknown = choose(known, start, end)
    key = _key(state, log)
    if origin == "log":
        assert log is not None
        key = log.primary_key
        read = LoggedImages(log, VersionRange(span.epoch, start, end)).images
    elif origin == "versions":
        assert versions is not None
        after = versions.after
        then, _ = _tried(lambda: tables.lake.state(path, "", after))
        key = then.primary_key if then is not None and PRIMARY_KEY in then.properties else key
        read = TwoVersions(tables.lake, path, versions.before, after, key, most_bytes, most_read).images
    else:
        unknown = "; ".join(filter(None, [no_log, no_state, no_versions, unknown]))
        read = lambda: iter(())  # noqa: E731
    return PastImages(table, key, origin, unknown, versions, read)


def _tried(work: Callable[[], _Found | None]) -> tuple[_Found | None, str]:
    """Returns what the work returns; or None, and why it failed."""
    try:
        return work(), ""
    except SluiceError as error:
        return None, error.message
    except (DeltaError, OSError) as error:
        return None, first_line(error)


def _hides(state: TableState | None, part: Span) -> bool:
    """Whether the table has rules that its rows of the span may not have been made by: other rules need a copy."""
    if state is None or state.copied is None or not noted_rules(state):
        return False
    return state.copied.has((part.epoch, part.end.version()))


def _key(state: TableState | None, log: OpenedLog | None) -> tuple[str, ...]:
    if state is not None:
        return state.primary_key
    return log.primary_key if log is not None else ()

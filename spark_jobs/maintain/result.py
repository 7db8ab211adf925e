"""The outcome of a table's maintenance: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_jobs.maintain.shape import Shape

_IDLE = "small files stay until a claim can be held meanwhile"


@dataclass(frozen=True, slots=True)
class Ordered:
    """The result for a table that is kept in the order of its key: how many files share keys with a file, itself
    included, before and after (1.0: in order), and the ranges of the key that were rewritten, each a commit, with about
    as many bytes."""

    depth_before: float
    depth_after: float
    ranges: int = 0
    bytes: int = 0

    @property
    def text(self) -> str:
        if not self.ranges:
            return f"depth {self.depth_after:.1f}"
        return f"{self.ranges} ranges of the key put in order, depth {self.depth_before:.1f} to {self.depth_after:.1f}"


@dataclass(frozen=True, slots=True)
class Maintained:
    """`left` says why there was nothing to do, `failed` why it failed. `after` is the shape when all was done,
    `deleted` a number of files. `kept`: why no file was deleted. `idle`: small files stay, because nothing
    waited to be claimed, and a run that stays could have been disturbed. Of a change log: `rows_deleted`, their time of
    `log_hours` being over (None: all are kept), and `rows_kept`: why no more could be.
    `ordered`: of a large table with a key. `changed`: what was changed for readers, and `lasting`: what could not
    be."""

    table: str
    before: Shape | None = None
    after: Shape | None = None
    compacted: bool = False
    deleted: int = 0
    retention_hours: int | None = None
    seconds: float = 0.0
    left: str = ""
    failed: str = ""
    kept: str = ""
    idle: bool = False
    rows_deleted: int = 0
    log_hours: int | None = None
    rows_kept: str = ""
    ordered: Ordered | None = None
    changed: tuple[str, ...] = ()
    lasting: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the known fields, for JSON and for metadata."""
        facts: dict[str, Any] = {"table": self.table}
        if self.failed:
            return facts | {"error": self.failed}
        if self.left:
            return facts | {"left_alone": self.left}
        for name, found in (("before", self.before), ("after", self.after)):
            if found:
                facts |= {f"files_{name}": found.files, f"small_{name}": found.small, f"bytes_{name}": found.bytes}
                facts[f"version_{name}"] = found.version
        facts |= {"compacted": self.compacted, "files_deleted": self.deleted, "seconds": round(self.seconds, 1)}
        facts |= {"retention_hours": self.retention_hours} | ({"left_for_later": _IDLE} if self.idle else {})
        if self.log_hours is not None:
            facts |= {"rows_deleted": self.rows_deleted, "log_retention_hours": self.log_hours}
        facts |= {"rows_kept": self.rows_kept} if self.rows_kept else {}
        if self.ordered is not None:
            facts |= {
                "depth_before": round(self.ordered.depth_before, 2),
                "depth_after": round(self.ordered.depth_after, 2),
            }
            facts |= {"ranges_ordered": self.ordered.ranges, "bytes_ordered": self.ordered.bytes}
        facts |= {"changed": list(self.changed)} if self.changed else {}
        facts |= {"cannot_change": list(self.lasting)} if self.lasting else {}
        return facts | ({"files_kept": self.kept} if self.kept else {})

    @property
    def text(self) -> str:
        """Returns the result as a sentence."""
        if self.failed:
            return f"failed: {self.failed}"
        if self.left:
            return f"left alone: {self.left}"
        assert self.before is not None
        assert self.after is not None
        what = f"{self.before.files} files became {self.after.files}" if self.compacted else f"{self.after.files} files"
        what += f", {self.ordered.text}" if self.ordered else ""
        what += f", {_IDLE}" if self.idle else ""
        if self.log_hours is not None:
            what += f"; {self.rows_deleted} rows deleted{f' ({self.rows_kept})' if self.rows_kept else ''}"
        what += f"; {self.deleted} old files deleted{f' ({self.kept})' if self.kept else ''}"
        return "; ".join([what, *self.changed, *self.lasting])

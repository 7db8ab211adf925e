"""What a history's properties say of it: where it began, and with what it was compared last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from spark_jobs.lake.state import HISTORY


@dataclass(frozen=True, slots=True)
class HistoryNote:
    """`begun`: the epoch and the version of the table with whose rows it began; changes up to there are not in it. None
    for one that has all of its log. `stamp`: what was true of the table when both were compared last, "" before that.
    `marks`: by epoch, the txnVersion of the last comparison, and the version of the table that it means; `passed`: the
    version up to which there was nothing to write, so that Delta made no commit. `emptied`: epoch, version and time (in
    microseconds, None where that is not known) of the last entry of the log by which all rows went."""

    begun: tuple[int, int] | None = None
    stamp: str = ""
    marks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    passed: Mapping[str, int] = field(default_factory=dict)
    emptied: tuple[int, int, int | None] | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> HistoryNote:
        fields = json.loads(properties.get(HISTORY, "{}"))
        begun = fields.get("begun")
        marks = {epoch: (int(mark), int(at)) for epoch, (mark, at) in fields.get("marks", {}).items()}
        place = (int(begun[0]), int(begun[1])) if begun else None
        emptied = fields.get("emptied")
        return cls(
            place, fields.get("stamp", ""), marks, fields.get("passed", {}),
            (int(emptied[0]), int(emptied[1]), emptied[2]) if emptied else None,
        )  # fmt: skip

    @property
    def compared(self) -> int:
        """The epoch in which both were compared last, -1 for none: of earlier ones nothing is missing."""
        return max(map(int, self.marks), default=-1)

    def applied(self, epoch: int, version: int | None) -> int | None:
        """How far the history is, by its txnVersion of an epoch; None for nothing."""
        mark, at = self.marks.get(str(epoch), (-1, -1))
        begun = self.begun[1] if self.begun is not None and self.begun[0] == epoch else None
        known = (at if version == mark else version, begun, self.passed.get(str(epoch)))
        return max((one for one in known if one is not None), default=None)

"""What a history's properties say of it: where it began, and with what it was compared last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from spark_jobs.lake.state import HISTORY


@dataclass(frozen=True, slots=True)
class HistoryNote:
    """`begun`: the epoch and the version of the table with whose rows it began; changes up to there are not in it. None
    for one that has all of its log. `stamp`: what was true of the table when both were compared last, "" before that;
    `compared`: the epoch of that comparison, -1 for none: of earlier ones nothing is missing. `passed`: by epoch, the
    version up to which there was nothing to write, so that Delta made no commit. `emptied`: epoch, version and time (in
    microseconds, None where that is not known) of the last entry of the log by which all rows went."""

    begun: tuple[int, int] | None = None
    stamp: str = ""
    compared: int = -1
    passed: Mapping[str, int] = field(default_factory=dict)
    emptied: tuple[int, int, int | None] | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> HistoryNote:
        fields = json.loads(properties.get(HISTORY, "{}"))
        begun = fields.get("begun")
        place = (int(begun[0]), int(begun[1])) if begun else None
        emptied = fields.get("emptied")
        return cls(
            place, fields.get("stamp", ""), fields.get("compared", -1), fields.get("passed", {}),
            (int(emptied[0]), int(emptied[1]), emptied[2]) if emptied else None,
        )  # fmt: skip

    def applied(self, epoch: int, version: int | None) -> int | None:
        """How far the history is, by its commits of an epoch; None for nothing."""
        begun = self.begun[1] if self.begun is not None and self.begun[0] == epoch else None
        known = (version, begun, self.passed.get(str(epoch)))
        return max((one for one in known if one is not None), default=None)

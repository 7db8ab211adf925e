"""The properties of a history: where it began, and what it was last compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from spark_jobs.lake.state import HISTORY


@dataclass(frozen=True, slots=True)
class HistoryNote:
    """`begun`: the epoch and the version of the table whose rows the history began with; changes up to there are not in
    it. None if it has all of its log. `stamp`: the table's stamp when both were last compared, "" before that;
    `compared`: the epoch of that comparison, -1 before it: no change of earlier epochs is missing. `passed`: by epoch,
    the version up to which there was nothing to write, so that Delta made no commit. `emptied`: epoch, version and time
    (in microseconds, None if it is unknown) of the last entry of the log that emptied the table."""

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
        """Returns how far the history is in an epoch, whose last commit is of `version`; None if it has nothing."""
        begun = self.begun[1] if self.begun is not None and self.begun[0] == epoch else None
        known = (version, begun, self.passed.get(str(epoch)))
        return max((one for one in known if one is not None), default=None)

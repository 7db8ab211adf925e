"""What a table's properties keep of the copy that it was made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

COPIED = "sluice.copied"


@dataclass(frozen=True, slots=True)
class CopyNote:
    """The table has every row of the source up to version `low`, read in `epoch`; it may have rows up to `high`, which
    then come again. `mark` is the txnVersion of the copy's commit: above every version that the table had before, and
    below the end of any event behind `low`."""

    epoch: int
    low: int
    high: int
    mark: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> CopyNote | None:
        """None for a table that was not made from a copy."""
        text = properties.get(COPIED)
        return cls(**json.loads(text)) if text else None

    def applied(self, version: int | None) -> int | None:
        """How far the table is, by its last txnVersion: the copy's own mark means `low`."""
        return self.low if version == self.mark else version

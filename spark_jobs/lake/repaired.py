"""What a table's properties keep of the repair of its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

REPAIRED = "sluice.repaired"
ROOM = 12  # versions behind a batch's end that repairs may use: an event has 19 bytes, and a copy needs a version too


@dataclass(frozen=True, slots=True)
class RepairNote:
    """The table is where it was before the repair, at version `at`, 0 where no batch of the app id `app` was written.
    Repairs' commits have txnVersions behind it, up to `mark`. No event ends between the two, so each means `at`."""

    app: str
    at: int
    mark: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RepairNote | None:
        """None for a table whose rows were never repaired."""
        text = properties.get(REPAIRED)
        return cls(**json.loads(text)) if text else None

    def applied(self, app: str, version: int | None) -> int | None:
        """How far the table is, by its last txnVersion of `app`; None before the first batch."""
        ours = app == self.app and version is not None and self.at < version <= self.mark
        return (self.at or None) if ours else version

"""Which part of a log without a primary key comes next: noted before its statement is sent, once for each place.

A part that adds copies is not safe to repeat. Delta leaves out what has the version of a part that was committed, but a
statement of a dead run that comes late may be of other boundaries: the log has grown since. So whoever merges behind
a place takes the part that the first one noted there, also a run that tries again. All statements that can still begin
at the place where the table stands are of that part: one of them counts, and Delta skips or refuses the others. The
note is beside the ledger, because a change of the table's own properties would refuse what runs beside the merge.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from spark_jobs.following.pending import Pending
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.tables import Lake

_PREFIX = "sluice.part."


@dataclass(frozen=True, slots=True)
class Agreed:
    """The notes of one destination and client."""

    lake: Lake
    destination: str
    client_id: int

    def part(self, table: str, pending: Callable[[str], Pending | None]) -> Pending | None:
        """The first part that the table lacks, as it was noted first; None for nothing. `pending` looks at the table
        and its log. Raises LakeError, and what `pending` raises."""
        found: list[Pending | None] = []

        def decide(before: str) -> str:
            found.append(pending(table))  # looked at behind the note: a table goes on, so what it says is not old
            if (now := found[-1]) is None:
                return before
            place = [now.part.epoch, now.part.after]
            noted = json.loads(before) if before else []
            end = now.log.end(now.part.epoch)
            if noted[:2] == place and noted[2] <= (end or 0):
                found.append(replace(now, part=replace(now.part, upto=noted[2])))
                return before
            return json.dumps([*place, now.part.upto])

        Noted(self.lake, self.lake.parking_path(self.destination, self.client_id)).agree(_PREFIX + table, decide)
        return found[-1]

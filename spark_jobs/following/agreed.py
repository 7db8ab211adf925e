"""Chooses the next part of a log without a primary key: noted before its statement is sent, once for each place.

A part that adds copies is not safe to repeat. Delta skips a statement with the version of a committed part, but a late
statement of a dead run may have other boundaries: the log has grown since. So every run that merges after a place takes
the part that was noted there first, also when it tries again. All statements that can still begin at the table's place
are of that part: one of them counts, and Delta skips or refuses the others. The note is next to the ledger, because a
change of the table's own properties would make Delta refuse statements that run at the same time as the merge.
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
        """Returns the first part that the table lacks, as it was noted first, or None. `pending` looks at the table and
        its log. Raises LakeError, and what `pending` raises."""
        found: list[Pending | None] = []

        def decide(before: str) -> str:
            found.append(pending(table))  # after the note was read, so it is not older than the note
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

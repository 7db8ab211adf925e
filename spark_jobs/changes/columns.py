"""The columns that a change log has after the table's own.

Each image is a row: an update has two, before and after. Changes are in the order of (`EPOCH`, `VERSION`, `NTH`). A row
of op `TRUNCATE` has no values: it deleted all rows of the table.
"""

from __future__ import annotations

import pyarrow as pa

INSERT, UPDATE_BEFORE, UPDATE_AFTER = "insert", "update_before", "update_after"
DELETE, TRUNCATE = "delete", "truncate"

OP = "_sluice_op"
EPOCH = "_sluice_epoch"
VERSION = "_sluice_version"  # `EntryPosition.version()` of the event's end
ROW = "_sluice_row"  # the row within its event
NTH = "_sluice_nth"  # the order of the images within their commit
JOURNAL, POSITION = "_sluice_journal", "_sluice_position"  # the event's end, as the source names it
TIME = "_sluice_time"  # when the source executed the event
BATCH, GTID = "_sluice_batch", "_sluice_gtid"  # of the claim: its number, and its end's GTID

SYSTEM = pa.schema(
    [
        (OP, pa.string()),
        (EPOCH, pa.int32()),
        (VERSION, pa.int64()),
        (ROW, pa.int32()),
        (NTH, pa.int64()),
        (JOURNAL, pa.int32()),
        (POSITION, pa.int64()),
        (TIME, pa.timestamp("us", "UTC")),
        (BATCH, pa.int64()),
        (GTID, pa.string()),
    ]
)
NAMES = frozenset(SYSTEM.names)

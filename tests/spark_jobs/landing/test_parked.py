"""The notes of tables that wait: why, and whether a person may accept what blocks them."""

from __future__ import annotations

import json
from pathlib import Path

from cdc_core.errors import TableStopped
from spark_jobs.lake.blocking import TableBlocked
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.parked import Parking


def test_a_table_is_blocked_by_its_rows_alone(tmp_path: Path) -> None:
    """The last failure counts; the note of an older version says nothing of it."""
    parking = Parking(Lake(tmp_path), "shop", 1)
    assert parking.park("shop.orders", TableBlocked("1 rows fail some", hint="Accept it."), 5.0).kind == "blocked"
    assert parking.tables()["shop.orders"].kind == "blocked"
    later = parking.park("shop.orders", TableStopped("a constraint refuses a row", hint="Drop it."), 9.0)
    assert (later.kind, later.since, later.tries) == ("stopped", 5.0, 2)
    old = {"table": "shop.users", "reason": "x", "hint": "", "tries": 1, "since": 1.0, "next_try": 2.0}
    Noted(parking.lake, parking.path).write({"sluice.parked.shop.users": json.dumps(old)})
    assert parking.tables()["shop.users"].kind == "stopped"

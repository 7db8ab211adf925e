"""A change log is maintained while a run appends to it, by delta-rs alone."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from spark_jobs.changes.columns import EPOCH, OP, SYSTEM, TIME, VERSION
from spark_jobs.following.pending import Follows
from spark_jobs.lake.state import DESTINATION, FENCE, LOG, TABLE, log_app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.definition import STATISTICS
from spark_jobs.landing.log import TableLog
from spark_jobs.maintain.logs import LogUpkeep, Retention
from spark_jobs.maintain.shape import shape

NAME, APPENDS = "shop.t", 40
WEEK = 7 * 86_400


def rows(*versions: int) -> pa.Table:
    size = len(versions)
    made = {
        OP: pa.array(["insert"] * size, pa.string()),
        EPOCH: pa.array([0] * size, pa.int32()),
        VERSION: pa.array(versions, pa.int64()),
        TIME: pa.array([datetime.now(UTC)] * size, pa.timestamp("us", "UTC")),
    }
    columns = [made.get(field.name, pa.nulls(size, field.type)) for field in SYSTEM]
    return pa.table([pa.array(versions, pa.int32()), *columns], schema=pa.schema([("id", pa.int32()), *SYSTEM]))


def test_appends_and_upkeep_side_by_side(tmp_path: Path) -> None:
    """No row is lost, and none is there twice: what is there is all after what the log says it lacks."""
    lake = Lake(tmp_path)
    follows, path = Follows(lake, "d", 1), lake.log_path("shop", "t")
    own = {DESTINATION: "d", TABLE: NAME, LOG: "true", FENCE: "run", STATISTICS: f"{EPOCH},{VERSION}"}
    DeltaTable.create(path, rows().schema, configuration=own, raise_if_key_not_exists=False)
    app, failed, ended = log_app_id("d", 1, NAME, 0), list[Exception](), threading.Event()

    def land(number: int) -> None:
        noted, own = CommitProperties(app_transactions=[Transaction(app, number * 10 + 9)]), range(10)
        claimed = rows(*(number * 10 + one for one in own))
        write_deltalake(lake.open(path), claimed, mode="append", commit_properties=noted)

    def append() -> None:
        try:
            for number in range(APPENDS):
                while True:  # as `landing.append` does it
                    with suppress(CommitFailedError):
                        land(number)
                        break
                time.sleep(0.02)
        except Exception as error:
            failed.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=append)
    thread.start()
    gone = turns = 0
    while not ended.is_set() or turns < 2:
        upkeep = LogUpkeep(follows, lambda: time.time() + WEEK - 0.2)  # what is 0.2 s old is a week old
        found = upkeep.log(NAME, Retention(1, alone=True))
        assert not found.left
        gone, turns = gone + found.rows_deleted, turns + 1
    thread.join()

    opened = TableLog(lake, "d", 1, NAME).open()
    assert opened is not None
    log, lacks = opened.table, opened.lacks_to(0)
    there = sorted(pa.table(log.to_pyarrow_table()).column(VERSION).to_pylist())
    assert failed == []
    assert lacks is not None
    assert there == list(range(lacks + 1, APPENDS * 10))
    assert gone == lacks + 1
    assert log.transaction_version(app) == APPENDS * 10 - 1
    assert shape(lake, path).files <= 20

"""A slow statement of ours while a run merges a small table's log again and again: it gets its turn."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.following.follow import Follow, FollowOptions
from spark_jobs.following.history.works import Works
from spark_jobs.following.merge import Merger
from spark_jobs.following.merged import Merged
from spark_jobs.following.pending import Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import is_conflict
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.parked import Parked, Parking
from spark_jobs.maintain.turns import Turns
from spark_jobs.session import Sessions
from tests.support.applying import apply_batch
from tests.support.random_changes import rows
from tests.support.spark_feed import Change, Feed, Table

pytestmark = [pytest.mark.integration, pytest.mark.full]

TABLE = Table("t", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",))
SLOW = """MERGE INTO delta.`{}` AS t
USING (SELECT 1 AS id, max(a.id * b.id % 7) AS m FROM range(30000) AS a CROSS JOIN range(30000) AS b) AS s
ON t.id = s.id WHEN MATCHED AND s.m > 0 THEN UPDATE SET t.what = 'x'"""


class Run(threading.Thread):
    """Lands a change and merges it, again and again."""

    def __init__(self, service: Feed, lake: Lake, sessions: Sessions) -> None:
        super().__init__()
        self._service, self._lake, self._sessions = service, lake, sessions
        self._parking, self.landed, self.ended = Parking(lake, "d", 1), 0, threading.Event()
        self.merged: list[Merged | Parked] = []

    def run(self) -> None:
        lake, sessions = self._lake, self._sessions
        works = Works(Merger(Follows(lake, "d", 1), sessions, Fence(lake, sessions)), lambda _: False)
        fence, pace = Fence(lake, sessions), FollowOptions(linger_seconds=0.0)
        while not self.ended.is_set():
            self._service.put(TABLE, [Change(self.landed + 1, None, (self.landed + 1, "x"))])
            claim = self._service.claim(self.landed + 1, self.landed, self.landed + 1)
            modes = Modes(Mode.LAND_FIRST)
            apply_batch(claim, lake, sessions, self._service.url, fence=fence, modes=modes)
            self.landed += 1
            self.merged += Follow(works, self._parking, lambda: ["shop.t"], pace).run()
        self.merged += Follow(works, self._parking, lambda: ["shop.t"], pace).run()


@pytest.mark.in_turn
def test_a_slow_statement_gets_its_turn(service: Feed, sessions: Sessions, tmp_path: Path) -> None:
    """While it runs the log is not merged, and afterwards it is."""
    lake, tries = Lake(tmp_path), list[bool]()
    run = Run(service, lake, sessions)
    run.start()
    try:
        while not run.merged:
            assert run.is_alive()
            run.join(0.1)
        turn = partial(Parking(lake, "d", 1).turn, "shop.t")
        path = lake.path("shop", "t")

        def slow() -> bool:
            with sessions.take() as spark:
                try:
                    spark.sql(SLOW.format(path)).collect()
                    tries.append(True)
                except Exception as error:
                    if not is_conflict(error):
                        raise
                    tries.append(False)
            return tries[-1]

        assert len(Turns(None).alongside([slow], turn)) == 1  # type: ignore[arg-type]
    finally:
        run.ended.set()
        run.join()
    assert tries[-1]
    assert len(tries) <= 3
    assert rows(lake, "t") == Counter(f"({n}, 'x')" for n in range(1, run.landed + 1))

"""Spark's workers that cannot write the lake: tables get their rows by statements, each once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from orchestration.stack.ports import free_port
from orchestration.stack.spark import SparkConnect
from spark_jobs.following.follow import Follow, FollowOptions
from spark_jobs.following.history.works import Works
from spark_jobs.following.merge import Merger
from spark_jobs.following.merged import Merged
from spark_jobs.following.pending import Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.parked import Parking
from spark_jobs.session import Sessions
from spark_jobs.write.order import SQL
from tests.support.applying import apply_batch
from tests.support.random_changes import rows
from tests.support.spark_feed import Change, Table, feed

pytestmark = [pytest.mark.integration, pytest.mark.full]

KEYED = Table("keyed", pa.schema({"id": pa.int64(), "what": pa.string()}), key=("id",))
BAG = Table("bag", pa.schema({"a": pa.int32(), "b": pa.string()}))
_WORKERS_ALONE = """
import os, sys
with open("/proc/self/cmdline", "rb") as line:
    if b"python_daemon" in line.read():
        {}
"""
_AS_NOBODY = """
        import deltalake
        opened = deltalake.DeltaTable.__init__
        def denied(*args, **kwargs):
            os.seteuid(65534)
            try:
                opened(*args, **kwargs)
            finally:
                os.seteuid(0)
        deltalake.DeltaTable.__init__ = denied
"""
_HOOKS = {
    "no delta-rs": ("sys.modules['deltalake'] = None", "deltalake"),
    "no access": (_AS_NOBODY, "ermission denied"),
}


@pytest.fixture(params=_HOOKS)
def hook(request: pytest.FixtureRequest) -> tuple[str, str]:
    """What happens to each worker as it starts, and a word of what is said of it then."""
    if request.param == "no access" and os.getuid():
        pytest.skip("only root's workers can become another user's")
    return _HOOKS[request.param]


@pytest.fixture
def sessions(hook: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    """Of a Spark whose workers have a hook."""
    folder = tmp_path / "hook"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_WORKERS_ALONE.format(hook[0]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    server = SparkConnect(tmp_path / "spark", free_port()).start()
    try:
        with Sessions(server.remote) as found:
            yield found
    finally:
        server.kill()


@pytest.mark.in_turn
def test_tables_get_their_rows_all_the_same(sessions: Sessions, hook: tuple[str, str], tmp_path: Path) -> None:
    """Of claims and of change logs; and it is said why they did not come by the job."""
    root = tmp_path / "lake"
    root.mkdir(mode=0o700)
    merged, landed = Lake(root / "merged"), Lake(root / "landed")
    with feed() as service, capture_logs() as said:
        for batch, (start, end) in enumerate([(0, 4), (4, 8)], 1):
            service.put(KEYED, [Change(n, None, (n, "x")) for n in range(start + 1, end + 1)])
            service.put(BAG, [Change(n, None, (1, "x")) for n in range(start + 1, end + 1)])
            claim = service.claim(batch, start, end)
            result = apply_batch(claim, merged, sessions, service.url)
            assert not result.refused, result.refused[0].error
            assert {one.engine for one in result.applied} == {SQL}
            assert not apply_batch(claim, landed, sessions, service.url, modes=Modes(Mode.LAND_FIRST)).refused
            works = Works(Merger(Follows(landed, "d", 1), sessions, Fence(landed, sessions)), lambda _: False)
            pace = FollowOptions(linger_seconds=0.0)
            found = list(Follow(works, Parking(landed, "d", 1), lambda: landed.logs("d"), pace).run())
            assert [one.parts for one in found if isinstance(one, Merged)] == [1, 1], found
    for lake in (merged, landed):
        assert rows(lake, "keyed") == Counter(f"({n}, 'x')" for n in range(1, 9))
        assert rows(lake, "bag") == Counter({"(1, 'x')": 8})
    assert hook[1] in str([line["why"] for line in said if "why" in line])

"""A replica that is read instead of the source has what the source had, or is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_core.errors import SourceBehind, SourceChanged
from cdc_core.position import EntryPosition
from spark_jobs.snapshot.replica import await_place, executed
from spark_jobs.snapshot.source import Source, connect
from tests.support.pair import Pair

pytestmark = pytest.mark.integration


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.full)], ids=["by GTID", "by position"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair.start(tmp_path, gtid=request.param)
    yield pair
    pair.stop()


def test_a_replica_is_waited_for(pair: Pair) -> None:
    """While it applies nothing it is refused after the time; then it has the rows. The source itself is none."""
    source, replica = (
        Source(server.host, server.port, server.user, server.password) for server in (pair.master, pair.replica)
    )
    pair.replica.execute("STOP SLAVE SQL_THREAD")
    pair.master.execute("CREATE DATABASE d", "CREATE TABLE d.t (v INT)", "INSERT INTO d.t VALUES (1)")
    low = EntryPosition(*pair.master.position())
    with connect(source) as connection:
        gtids = executed(connection)
    assert bool(gtids) is pair.gtid
    with pytest.raises(SourceBehind, match="the replica does not have") as caught:
        await_place(replica, low, gtids, 1.0)
    assert caught.value.place == replica.address
    pair.replica.execute("START SLAVE SQL_THREAD")
    found = await_place(replica, low, gtids, 60.0)
    with pytest.raises(SourceChanged):  # a second server behind the same address
        connect(dataclasses.replace(found, port=source.port))
    with connect(found) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM d.t")
        assert cursor.fetchone() == (1,)
    if not pair.gtid:
        with pytest.raises(SourceBehind):
            await_place(source, low, gtids, 1.0)

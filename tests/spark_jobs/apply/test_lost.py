"""spark_jobs.apply.lost: rows in the lake of transactions that a promoted server lacks. Real servers, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from cdc_core.client.changes import PlanCounts
from cdc_core.contract.claim import Claim
from cdc_core.gtid import parse_gtid_field
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.position import EntryPosition
from cdc_core.source.connection import connected
from cdc_core.source.start.continuity import missing
from spark_jobs.apply.commits import note
from spark_jobs.apply.lost import lost_rows
from spark_jobs.lake.tables import Lake
from tests.support.captures import CLIENT
from tests.support.pair import Pair, capture_of, destination, reads, until
from tests.support.reading import until_read

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def commit(lake: Lake, claim: Claim, table: str) -> None:
    """A batch's commit, as Spark makes it."""
    metadata = CommitProperties(custom_metadata={"userMetadata": note(claim, table, "run", None, PlanCounts())})
    rows = pa.table({"id": [1]})
    write_deltalake(lake.path(*table.split(".")), rows, mode="append", commit_properties=metadata)


def claim(epoch: int, gtids: str, moved: int = 0) -> Claim:
    at = EntryPosition("bin.000003", 900, gtid=parse_gtid_field(gtids))
    return Claim("shop", CLIENT, 1, at, at, (), 0, 0, 0, (), epoch, "test", 0.0, moved=moved)


def test_only_tables_with_lost_transactions_are_stopped(tmp_path: Path) -> None:
    """Each set is asked for until it is there, or five times. A table that a copy made, or that took a batch since, or
    that is not there, is none of them."""
    lake, asked, waited = Lake(tmp_path), list[str](), list[float]()
    present = claim(1, f"{SERVER}:1-9", moved=1)
    commit(lake, claim(0, f"{SERVER}:1-5"), "shop.sound")
    commit(lake, claim(0, f"{SERVER}:1-8"), "shop.phantom")
    commit(lake, claim(0, f"{SERVER}:1-8"), "shop.since")
    commit(lake, present, "shop.since")

    def lacks(gtids: str) -> str:
        asked.append(gtids)
        return f"{SERVER}:8" if gtids.endswith("-8") else ""

    tables = ["shop.sound", "shop.phantom", "shop.since", "shop.none"]
    (found,) = lost_rows(lake, present, tables, lacks, waited.append)
    assert (found.table, found.copy_needed) == ("shop.phantom", True)
    assert f"{SERVER}:8 are lost" in found.error.message
    assert "sluice copy shop shop.phantom" in found.error.hint
    assert (asked.count(f"{SERVER}:1-8"), asked.count(f"{SERVER}:1-5"), len(waited)) == (5, 1, 4)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair.start(tmp_path / "pair", gtid=True)
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.integration
def test_a_promoted_server_that_lacks_what_the_lake_has(pair: Pair, tmp_path: Path) -> None:
    """A batch is applied and not acked, the server dies, and the promoted one never had its last transaction."""
    lake = Lake(tmp_path / "lake")
    pair.master.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
    with destination(pair.config("shop", pair.master), MemoryNodes()) as one:
        pair.master.execute("INSERT INTO shop.t VALUES (1)")
        pair.caught_up()
        pair.replica.execute("STOP REPLICA")
        pair.master.execute("INSERT INTO shop.t VALUES (2)")
        until_read(one.status, pair.master)
        applied = one.service().claim(CLIENT, 1000, 60, "killed", 60)
        assert applied is not None
        commit(lake, applied, "shop.t")
        pair.fail_over()
        until(lambda: reads(one, pair.master), one)
        pair.master.execute("INSERT INTO shop.t VALUES (3)")
        found = one.service().claim(CLIENT, 1000, 60, "next", 60)
        assert found is not None
        assert (found.epoch, found.moved) == (1, 1)

        def lacks(gtids: str) -> str:
            with connected(capture_of(one).settings) as conn:
                return missing(conn, parse_gtid_field(gtids))

        (lost,) = lost_rows(lake, found, ["shop.t"], lacks, lambda _: None)
        last = str(applied.end.gtid).rpartition("-")[2]
        assert lost.error.message.startswith("its rows of the transactions ")
        assert f":{last} are lost" in lost.error.message
        assert not lost_rows(lake, replace(found, moved=0), ["shop.t"], lacks, lambda _: None)

"""A loader of small tables that is killed, as a process of its own: between two commits, and after them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load import registration
from spark_jobs.load.result import Copied
from tests.support.small_tables import ROWS, TABLES, check_all, loaded, loader_of, named, opened_small

pytestmark = [pytest.mark.integration, pytest.mark.fault]

KILLED = """
import sys, time
from pathlib import Path
from cdc_core import config
from cdc_core.client.connector import Connector
from spark_jobs.lake.tables import Lake
from spark_jobs.load import cutover, registration
from spark_jobs.load.loader import Loader
from spark_jobs.load.reader import Manner
from spark_jobs.session import Sessions
from spark_jobs.snapshot.limits import Limits

http, flight, conf, lake, where, *names = sys.argv[1:]
registration.LEASE_SECONDS = 4.0
owner, _, name = where.partition(":")
work, calls = getattr(cutover if owner == "cutover" else cutover.Cutover, name), []

def slow(*given, **more):
    calls.append(1)
    if len(calls) > 3:
        print("there", flush=True)
        time.sleep(60)
    return work(*given, **more)

setattr(cutover if owner == "cutover" else cutover.Cutover, name, slow)
instance, _ = config.load_instance(Path(conf), "shop")
connector, into = Connector(http, "shop", flight_url=flight), Lake(lake, complete=True)
loader = Loader(connector, instance, into, Sessions("sc://x:1"), Manner())
for loading in loader.tables(names):
    loading.outcome()
"""


@pytest.mark.parametrize("where", ["cutover:switch", pytest.param("Cutover:_end", marks=pytest.mark.full)])
def test_a_loader_that_is_killed_between_two_tables(
    mysql8: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Before or after their commits. Each table is as before or whole, and the next loader goes on, with all that the
    one before had registered, many at a time."""
    monkeypatch.setattr(registration, "LEASE_SECONDS", 4.0)
    with opened_small(mysql8, tmp_path) as shop:
        doors = [shop.connector.http_url, shop.connector.flight_url]
        paths = [str(tmp_path / "conf"), shop.lake.lake.root, where, *named(shop)]
        process = subprocess.Popen([sys.executable, "-c", KILLED, *doors, *paths], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"there\n"
            time.sleep(1.0)
        finally:
            process.kill()
            process.wait()
        lake = shop.lake.lake
        there = [f"t{number}" for number in range(TABLES) if lake.has(shop.database, f"t{number}")]
        assert len(there) == (3 if where == "cutover:switch" else TABLES)
        for table in there:
            assert DeltaTable(lake.path(shop.database, table)).to_pyarrow_table().num_rows == ROWS
        shop.execute("UPDATE t0 SET v = 'new' WHERE a = 1", "DELETE FROM t7 WHERE a = 2")
        found = loaded(loader_of(shop, tmp_path), named(shop))
        assert [type(one) for one in found.values()] == [Copied] * TABLES
        check_all(shop)

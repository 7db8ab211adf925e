"""A destination whose rows are to be in the lake as soon as possible, on real MySQL, service, Spark and Dagster."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster_graphql import DagsterGraphQLClient
from deltalake import DeltaTable

from orchestration.names import Names
from orchestration.stack.mysql.server import MySqlServer
from tests.support.operated import Operated, operated, until

pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(2400)]

NAMES = Names("shop")
ROWS = 8


@pytest.fixture(scope="module")
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """A run is there and waits."""
    folder = tmp_path_factory.mktemp("freshness")
    with operated(mysql8, spark_remote, folder, "orders", freshness="asap") as shop:
        shop.sql("INSERT INTO orders VALUES (0, 'first')")
        until("the first row", lambda: rows(shop) == 1)
        yield shop


def rows(shop: Operated) -> int:
    """Those in the lake; 0 without the table."""
    place = shop.lake.path(shop.database, "orders")
    return int(DeltaTable(place).count()) if DeltaTable.is_deltatable(place) else 0


def runs(shop: Operated, *statuses: dg.DagsterRunStatus) -> list[str]:
    """The runs that drain, the newest first."""
    filters = dg.RunsFilter(tags=NAMES.run_tags, statuses=list(statuses) or None)
    return [run.run_id for run in shop.instance.get_runs(filters)]


@pytest.mark.in_turn
def test_a_row_on_an_idle_stack_is_merged_without_the_start_of_a_run(shop: Operated) -> None:
    """One run, before and after. With `-s` the seconds from commit to lake are shown."""
    (before,) = runs(shop)
    seconds = []
    for number in range(1, ROWS + 1):
        time.sleep(4)
        shop.sql(f"INSERT INTO orders VALUES ({number}, 'one')")
        committed = time.monotonic()
        until("the row", lambda number=number: rows(shop) == number + 1)  # type: ignore[misc]
        seconds.append(time.monotonic() - committed)
    print(f"\ncommit to lake: {sorted(round(one, 1) for one in seconds)}, p50 {statistics.median(seconds):.1f} s")
    assert runs(shop) == [before]
    assert shop.differences("orders") == []


@pytest.mark.in_turn
def test_another_job_is_let_in(shop: Operated) -> None:
    """The run that waits gives way, and another one takes its place."""
    (waiting,) = runs(shop, dg.DagsterRunStatus.STARTED)
    client = DagsterGraphQLClient("127.0.0.1", port_number=int(shop.dagster.url.rpartition(":")[2]))
    order = {"ops": {"pause_shop_op": {"config": {"reason": "a look", "table": f"{shop.database}.orders"}}}}
    paused = client.submit_job_execution("pause_shop", run_config=order)
    until("the pause", lambda: shop.run(paused).status == dg.DagsterRunStatus.SUCCESS)
    assert shop.run(waiting).status == dg.DagsterRunStatus.SUCCESS
    assert [stop.table for stop in shop.connector.client_status().stopped] == [f"{shop.database}.orders"]

    order = {"ops": {"resume_shop_op": {"config": {"reason": "seen", "table": f"{shop.database}.orders"}}}}
    resumed = client.submit_job_execution("resume_shop", run_config=order)
    until("the end of the pause", lambda: shop.run(resumed).status == dg.DagsterRunStatus.SUCCESS)
    until("a new run", lambda: [one for one in runs(shop, dg.DagsterRunStatus.STARTED) if one != waiting])
    shop.sql("INSERT INTO orders VALUES (100, 'after')")
    assert shop.differences("orders") == []

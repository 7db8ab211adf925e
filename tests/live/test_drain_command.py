"""A real shop's rows, drained without Dagster's processes: by the command, and by the example DAG in a real Airflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.stack.defs import write_component
from orchestration.stack.mysql.server import MySqlServer
from tests.support.airflow.environment import ROOT, airflow
from tests.support.shop import Shop, opened_shop

pytestmark = [pytest.mark.integration, pytest.mark.full]


@pytest.fixture(scope="module")
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened_shop(mysql8, spark_remote, tmp_path_factory.mktemp("drained")) as found:
        found.execute("CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(20))")
        yield found


@pytest.fixture(scope="module")
def defs(shop: Shop, spark_remote: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A defs.yaml of the shop."""
    file = tmp_path_factory.mktemp("defs") / "shop" / "defs.yaml"
    doors = {"http": shop.connector.http_url, "flight": shop.connector.flight_url}
    lake = {"lake": shop.lake.lake.root, "complete": True}
    write_component(file, {"destination": "shop", **lake, "service": doors, "spark": spark_remote})
    return file


def sluice(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchestration", "drain", "shop", *arguments, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)


@pytest.mark.in_turn
def test_the_command_drains_a_shop(shop: Shop, defs: Path) -> None:
    """`--once` takes one batch; without it all that waits is in the lake, as at the source."""
    shop.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    shop.read()
    done = sluice("--defs", str(defs), "--once")
    assert done.returncode == 0, done.stdout + done.stderr
    batch, run = map(json.loads, done.stdout.splitlines())
    assert (batch["rows"], batch["tables"]) == (2, [f"{shop.database}.orders"])
    assert (run["batches"], run["rows"], run["checks"]) == (1, 2, [])

    shop.execute("UPDATE orders SET v = 'c' WHERE id = 2", "DELETE FROM orders WHERE id = 1")
    end = shop.read()
    done = sluice("--defs", str(defs))
    assert done.returncode == 0, done.stdout + done.stderr
    assert shop.reached(end)
    assert shop.differences("orders") == {"orders": (0, 0, 0)}


@pytest.mark.in_turn
def test_the_example_runs_in_airflow(shop: Shop, defs: Path, tmp_path: Path) -> None:
    """A run of the DAG brings the rows that wait, and then does what depends on them."""
    shop.execute("INSERT INTO orders VALUES (3, 'd'), (4, 'e')")
    end = shop.read()
    assert airflow(tmp_path, "db", "migrate").returncode == 0
    done = airflow(tmp_path, "dags", "test", "sluice", SLUICE_DEFS=str(defs), SLUICE_DESTINATIONS="shop")

    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-5000:]
    assert "state=success" in said, said[-5000:]
    assert shop.reached(end)
    assert shop.differences("orders") == {"orders": (0, 0, 0)}

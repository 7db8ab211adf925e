"""The metastore that is in the lake's folder: its names outlive Spark, and move with the lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.stack.metastore import metastore_in
from orchestration.stack.spark import SparkConnect
from spark_jobs.catalog.notes import CatalogNotes
from spark_jobs.catalog.standing import owed
from spark_jobs.lake.catalog_names import CatalogRules
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from tests.support.registered import made, names, register, rows
from tests.support.servers import free_port

pytestmark = pytest.mark.integration
RULES = CatalogRules()


@pytest.mark.in_turn(2)
@pytest.mark.timeout(400)
@pytest.mark.full
def test_names_last_and_move_with_the_lake(tmp_path: Path) -> None:
    """Its first start was killed while Derby created its database. The Spark is killed, the lake is moved; what is read
    by name is the table where it is."""
    lake = Lake(tmp_path / "lake")
    made(lake, "a", 3)
    (metastore_in(lake.root) / "derby" / "seg0").mkdir(parents=True)
    server = SparkConnect(tmp_path / "spark", free_port(), metastore=metastore_in(lake.root), driver_memory="1g")
    try:
        server.start()
        assert register(lake, server.remote, RULES).done == {"a": "registered as spark_catalog.shop.a"}
        server.kill()
        server.start()
        with Sessions(server.remote) as sessions:
            assert names(sessions, "shop") == {"a"}
            assert rows(sessions, "SELECT count(*) FROM shop.a") == [(3,)]
    finally:
        server.kill()

    moved = Lake((tmp_path / "lake").rename(tmp_path / "moved"))
    server = SparkConnect(tmp_path / "spark", free_port(), metastore=metastore_in(moved.root), driver_memory="1g")
    try:
        server.start()
        assert "the lake was at" in owed(moved, RULES, CatalogNotes(moved, "shop", 1001).read())
        said = register(moved, server.remote, RULES)
        assert (said.done, said.failed) == ({"a": "registered as spark_catalog.shop.a"}, {})
        with Sessions(server.remote) as sessions:
            assert rows(sessions, "SELECT count(*) FROM shop.a") == [(3,)]
            shown = str(rows(sessions, "SHOW TABLE EXTENDED IN shop LIKE 'a'"))
        assert f"Location: file:{moved.root}/shop/a" in shown
        assert not (tmp_path / "lake" / "shop").exists()
    finally:
        server.kill()


@pytest.mark.in_turn(2)
@pytest.mark.timeout(200)
def test_a_metastore_opens_at_any_path(tmp_path: Path) -> None:
    """Also at one with what separates settings of Derby, and options of Java."""
    metastore = metastore_in(str(tmp_path / "the;lake 'of\" $x"))
    server = SparkConnect(tmp_path / "spark", free_port(), metastore=metastore, driver_memory="1g")
    try:
        server.start()
        with Sessions(server.remote) as sessions:
            assert rows(sessions, "SHOW DATABASES") == [("default",)]
    finally:
        server.kill()
    assert (metastore / "derby" / "service.properties").is_file()

"""DDL statements in claims, over HTTP, in front of a real MySQL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim
from cdc_core.doors.http import HttpDoor
from cdc_core.schema.ddl import EffectKind
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer
from tests.support.door_double import opened
from tests.support.reading import until_read
from tests.support.waiting import until

pytestmark = pytest.mark.integration

SCRIPT = """
CREATE TABLE t (id INT PRIMARY KEY, v INT)
CREATE VIEW seen AS SELECT 1
INSERT INTO t VALUES (1, 1), (2, 2)
ALTER TABLE t ADD c INT DEFAULT 7
ALTER TABLE t ADD INDEX (v)
INSERT INTO t (id) VALUES (3)
RENAME TABLE t TO s, s TO u
TRUNCATE u
INSERT INTO u VALUES (4, 4, 4)
CREATE TABLE w AS SELECT id FROM u
CREATE TABLE IF NOT EXISTS w (id INT)
DROP TABLE u, w
"""
EXPECTED = [
    (["create t"], {"t": 2}),
    (["alter t"], {"t": 1}),
    (["rename t", "rename s", "truncate u"], {"u": 1}),
    (["create_filled w"], {"w": 1}),
    (["drop u", "drop w"], {}),  # the schema history knows that `w` was there
]


ONLINE = """
CREATE TABLE t (id INT PRIMARY KEY, v INT)
INSERT INTO t VALUES (1, 1)
CREATE TABLE _t_gho LIKE t
ALTER TABLE _t_gho ADD c INT DEFAULT 7
INSERT INTO _t_gho (id, v) SELECT id, v FROM t
CREATE TABLE _t_del (id INT)
DROP TABLE _t_del
RENAME TABLE t TO _t_del, _t_gho TO t
INSERT INTO t VALUES (2, 2, 2)
DROP TABLE _t_del
DROP TABLE t
CREATE TABLE _t_old (id INT PRIMARY KEY)
INSERT INTO _t_old VALUES (1)
"""


@pytest.fixture(params=["false", "true"], ids=["by position", "by GTID"])
def shop(mysql8: MySqlServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Connector, str]]:
    """A service with one destination, and its database."""
    with mysql8.database("ddl") as database:
        (tmp_path / "canal.properties").write_text("canal.destinations = shop\n")
        lines = {
            "canal.instance.master.address": f"{mysql8.host}:{mysql8.port}",
            "canal.instance.dbUsername": mysql8.user,
            "canal.instance.dbPassword": mysql8.password,
            "canal.instance.filter.regex": rf"{database}\\..*",
            "canal.instance.gtidon": request.param,
        }
        (tmp_path / "shop").mkdir()
        text = "\n".join(f"{key} = {value}" for key, value in lines.items())
        (tmp_path / "shop" / "instance.properties").write_text(text)
        service, _ = config.load_service(tmp_path)
        server = CanalServer(service, tmp_path)
        server.start()
        with opened(HttpDoor(server, "127.0.0.1", 0)) as http, Connector(http.url, "shop") as connector:
            until(lambda: connector.status().state == "running")
            yield connector, database
        server.stop()


def shown(claim: Claim) -> tuple[list[str], dict[str, int]]:
    effects = [
        f"{effect.kind} {effect.table}{' if' if effect.conditional else ''}"
        for ddl in claim.ddl
        for effect in ddl.effects
    ]
    return effects, {table.schema.table: table.rows for table in claim.tables}


def claims(connector: Connector) -> list[Claim]:
    """All claims that there are, none of them acked."""
    found = []
    while (claim := connector.get_without_ack(1000, owner="run-1")) is not None:
        found.append(claim)
    return found


def test_rows_and_ddl_come_in_order(shop: tuple[Connector, str], mysql8: MySqlServer) -> None:
    """Each claim has its statements before its rows, and ends before the next statement. They count as backlog. After a
    rollback the same comes again; the last ack leaves nothing."""
    connector, database = shop
    mysql8.execute(*SCRIPT.strip().split("\n"), database=database)
    until(lambda: (lambda one: (one.backlog_rows, one.backlog_ddl) == (5, 7))(connector.client_status()))

    first = claims(connector)
    assert len(connector.rollback(reason="test")) == len(first)
    again = claims(connector)

    assert [shown(claim) for claim in first] == EXPECTED
    assert [(c.start, c.end, c.ddl, c.tables) for c in again] == [(c.start, c.end, c.ddl, c.tables) for c in first]
    for before, claim in pairwise(again):
        assert before.end == claim.start
    for claim in again:
        ends = [ddl.position for ddl in claim.ddl]
        assert ends == sorted(ends)
        assert all(claim.start < end <= claim.end for end in ends)
        assert all(ddl.understood and ddl.database == database for ddl in claim.ddl)
        assert connector.ack(claim) == claim.end
    alter = again[1].ddl[0].effects[0]
    assert (len(alter.before.columns), len(alter.schema.columns)) == (2, 3)
    create = again[0].ddl[0].effects[0]
    assert (create.kind, [change.name for change in create.changes]) == (EffectKind.CREATE, ["id", "", "v"])
    until(lambda: connector.client_status().waiting == 0)


def test_an_online_schema_change_is_one_rewrite(shop: tuple[Connector, str], mysql8: MySqlServer) -> None:
    """Of the helper nothing is seen, and the statement has the definitions of the real table. A table that is named
    like a helper, of a table that is not there, is one of its own."""
    connector, database = shop
    mysql8.execute(*ONLINE.strip().split("\n"), database=database)
    until_read(connector.status, mysql8)

    found = claims(connector)

    assert [shown(claim) for claim in found] == [
        (["create t"], {"t": 1}),
        (["rewrite t"], {"t": 1}),
        (["drop t", "create _t_old"], {"_t_old": 1}),
    ]
    swap = found[1].ddl[0].effects[0]
    assert ([c.name for c in swap.before.columns], [c.name for c in swap.schema.columns]) == (
        ["id", "v"],
        ["id", "v", "c"],
    )
    assert found[1].tables[0].schema == swap.schema
    assert [table.table for table in connector.tables()] == ["_t_old"]

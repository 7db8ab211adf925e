"""`sluice explain` by the real parts: a batch of MySQL's in the lake, and one that is not there yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_core.client.connector import Connector
from cdc_core.errors import ConfigError
from orchestration.commands.explain import run
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.access import Access
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.landing.notes import Notes
from spark_jobs.past.asked import AskedPast
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration
QUOTED = "SET binlog_rows_query_log_events = 1"


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[Shop]:
    """A table with a key and one without, whose first rows are in the lake."""
    with opened_shop(mysql8, spark_remote, tmp_path) as one:
        one.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), at DATETIME)", "CREATE TABLE k (v INT)")
        one.execute("INSERT INTO t VALUES (1, 'one', '2026-01-01'), (2, 'two', NULL)", "INSERT INTO k VALUES (7), (7)")
        one.drain()
        yield one


def access(shop: Shop, tmp_path: Path, *, conf: bool = True) -> Access:
    """What the command works with."""

    @contextmanager
    def connect() -> Iterator[Connector]:
        yield shop.connector

    lake, sessions = shop.lake.lake, shop.lake.sessions
    return Access(
        "shop", shop.connector.client_id, connect, lambda: sessions, lake, tmp_path / "conf" if conf else None
    )


def explained(at: Access, capsys: pytest.CaptureFixture[str], *tables: str, limit: int = 20, **asked: str) -> Any:
    """The JSON of one explanation."""
    capsys.readouterr()
    assert run(at, tables, AskedPast(**asked), limit, binlog=at.conf is not None, as_json=True) == 0
    return json.loads(capsys.readouterr().out)


def last_batch(shop: Shop) -> str:
    """The number of the last batch in the ledger."""
    ledger = shop.lake.ledger.opened()
    assert ledger is not None
    return str(max(ledger.to_pyarrow_table(columns=["batch_id"])["batch_id"].to_pylist()))


class TestExplainedBatch:
    def test_merged_batch(self, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A batch shows its transactions with statements, and rows before and after by the tables' versions; for
        people within 80 columns. Its GTID, its position and its time find the same."""
        update = "UPDATE t SET name = 'TWO' WHERE id = 2"
        shop.execute(QUOTED, update)
        shop.execute("START TRANSACTION", "INSERT INTO t VALUES (3, 'three', NULL)", "DELETE FROM t WHERE id = 1",
                     "DELETE FROM k LIMIT 1", "COMMIT")  # fmt: skip
        shop.drain()
        number, at, t, k = last_batch(shop), access(shop, tmp_path), f"{shop.database}.t", f"{shop.database}.k"
        found = explained(at, capsys, batch=number)
        first, second = found["transactions"]
        assert (first["statements"], first["rows"][t]["updates"], second["statements"]) == ([update], 1, [])
        assert (first["server_id"], first["gtid"].count(":"), found["transactions_unknown"]) == (1, 1, "")
        rows = {(row["kind"], (row["after"] or row["before"])["id"]): row for row in found["tables"][t]["rows"]}
        assert sorted(rows) == [("delete", 1), ("insert", 3), ("update", 2)]
        assert (rows["update", 2]["before"]["name"], rows["update", 2]["after"]["name"]) == ("two", "TWO")
        assert rows["delete", 1]["before"]["at"] == "2026-01-01 00:00:00"
        assert (found["tables"][t]["rows_from"], found["tables"][t]["counts"]["deletes"]) == ("versions", 1)
        assert [row["before"] for row in found["tables"][k]["rows"]] == [{"v": 7}]
        one = explained(at, capsys, gtid=first["gtid"])
        assert (one["one_transaction"], [row["kind"] for row in one["tables"][t]["rows"]]) == (True, ["update"])
        assert (one["tables"][t]["rows_from"], list(one["tables"])) == ("binlog", [t])
        assert explained(at, capsys, position=second["end"])["transactions"] == [second]
        bare = explained(access(shop, tmp_path, conf=False), capsys, t, batch=number, limit=2)
        assert (bare["transactions"], bare["tables"][t]["more_rows"]) == ([], True)
        assert bare["transactions_unknown"]
        run(at, (), AskedPast(batch=number), 20, binlog=True, as_json=False)
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= 80, shown
        assert {update, "name: two -> TWO"} <= {line.strip() for line in shown.replace("id=2", "\n").splitlines()}
        with pytest.raises(ConfigError, match="has no batch 5"):
            run(at, (), AskedPast(batch="5"), 20, binlog=True, as_json=True)

    def test_landed_and_claimed_batch(self, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A change log shows every change of a row. A batch that is claimed is shown by the binlog alone."""
        shop.lake = replace(shop.lake, modes=Modes(Mode.LAND_FIRST), notes=Notes())
        shop.execute("UPDATE t SET name = 'a' WHERE id = 2", "UPDATE t SET name = 'b' WHERE id = 2")
        shop.drain()
        at, t = access(shop, tmp_path), f"{shop.database}.t"
        found = explained(at, capsys, t, batch=last_batch(shop))["tables"][t]
        names = [(row["before"]["name"], row["after"]["name"]) for row in found["rows"]]
        assert (found["rows_from"], names) == ("log", [("two", "a"), ("a", "b")])
        shop.execute("UPDATE t SET name = 'c' WHERE id = 2")
        claim = shop.claim()
        waiting = explained(at, capsys, batch=str(claim.batch_id))
        assert (waiting["acked"], waiting["tables"][t]["rows"][0]["after"]["name"]) == (False, "c")

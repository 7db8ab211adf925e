"""A destination rewound by its job, at a real service and source; Spark is not asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdc_core.contract.reached import How
from cdc_core.errors import SessionError
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Reset, Rollback
from spark_jobs.lake.ledger import Ledger, TableNote
from spark_jobs.lake.tables import Lake
from tests.support.jobs import NOWHERE, Executed, commanded, executed
from tests.support.shop import Shop, opened_shop, until_running

pytestmark = pytest.mark.integration


def test_a_destination_is_rewound_to_where_a_batch_began(
    mysql8: MySqlServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run reports, and changes nothing. Then the batch comes again, also by its run, and as often as it is asked
    for; each leaves its trace. What lies ahead is skipped only on purpose."""
    conf = tmp_path / "conf"
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        ledger = Ledger(Lake(conf / "lake"), "shop", 1001)
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        first = noted(shop, ledger, "run-1")
        shop.execute("INSERT INTO t VALUES (1)")
        second = noted(shop, ledger, "it's run 2")

        def rewind(**config: Any) -> Executed:
            return executed(Reset, shop.connector.http_url, conf, reason="a wrong merge", **config)

        before = shop.connector.client_status().cursor
        dry = rewind(batch=second.batch_id)
        told = dry.history[1][1]
        assert (told["action"], told["reason"], told["done"]) == ("reset, dry run", "a wrong merge", False)
        assert (told["to"], told["from"]) == (str(second.start), str(before))
        assert told["again_bytes"] > 0
        assert dry.summary["again_bytes"].value == told["again_bytes"]
        assert shop.connector.client_status().cursor == before
        capsys.readouterr()
        assert commanded(Reset(batch=second.batch_id), shop.connector.http_url, conf) == 0
        line = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert {name: told[name] for name in line} == line, "the command finds the same"

        for epoch, place in enumerate(({"batch": second.batch_id}, {"materialized_by": "it's run 2"}), 1):
            done = rewind(**place, dry_run=False)
            assert done.success, done.failure
            assert (done.history[1][0], done.history[1][1]["done"]) == ("cdc/shop/store", True)
            until_running(shop.connector)
            client = shop.connector.client_status()
            assert (client.epoch, client.reached.how, client.cursor) == (epoch, How.RESET, second.start)
        assert rewind(materialized_by="run-1").history[1][1]["to"] == str(first.start)

        ahead = rewind(latest=True, dry_run=False)
        assert "would be skipped, and nothing was done" in ahead.failure
        assert shop.connector.client_status().epoch == 2
        assert rewind(latest=True, dry_run=False, skip=True).success
        for wrong, words in (
            ({"batch": 999_999_999}, "the lake has no batch 999999999"),
            ({"batch": second.batch_id, "latest": True}, "not exactly one place"),
            ({"position": "bin.000001"}, "position is not FILE:OFFSET"),
            ({}, "not exactly one place"),
            ({"position": f"{second.start.journal_name}:{second.start.position + 1}"}, "no transaction begins there"),
            ({"batch": second.batch_id, "moved": True}, "another server was read"),
        ):
            assert words in rewind(**wrong).failure


def test_claims_are_given_back_with_a_reason(mysql8: MySqlServer, tmp_path: Path) -> None:
    """The store's history says which, and why. Again there is nothing to give back; a batch that nobody holds is an
    error. The command gives back as the job does."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        url, conf = shop.connector.http_url, tmp_path / "conf"
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        claim = shop.claim(10, owner="somebody")

        held, nothing = (executed(Rollback, url, conf, reason="its owner is gone") for _ in range(2))
        unknown = executed(Rollback, url, conf, reason="its owner is gone", batch_id=claim.batch_id)
        again = shop.claim(10, owner="somebody")
        assert commanded(Rollback(batch_id=again.batch_id), url, conf, reason="its owner is gone") == 0
        assert shop.connector.client_status().claims == ()
        with pytest.raises(SessionError, match="is not claimed"):
            commanded(Rollback(batch_id=again.batch_id), url, conf, reason="its owner is gone")

    assert [run.success for run in (held, nothing, unknown)] == [True, True, False]
    asset, told = held.history[1]
    assert (asset, told["action"], told["reason"]) == ("cdc/shop/store", "rollback", "its owner is gone")
    assert (told["batches"], nothing.history[1][1]["batches"]) == (str(claim.batch_id), "nothing was claimed")
    assert f"batch {claim.batch_id} is not claimed" in unknown.failure
    assert unknown.history[1][1]["outcome"] == "failed"


def noted(shop: Shop, ledger: Ledger, run_id: str) -> Any:
    """A claim that is in the ledger, and acked."""
    claim = shop.claim(10, owner=run_id)
    ledger.note(claim, {name: TableNote() for name in claim.table_names}, run_id, 1_700_000_000.0)
    shop.connector.ack(claim)
    return claim

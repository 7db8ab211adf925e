"""A snapshot over HTTP at a real service: what claims say of it, and what acks make of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_core.contract.claim import Claim
from cdc_core.contract.snapshot import FIRST_START, Progress
from cdc_core.errors import SessionError
from cdc_core.schema.names import full_name
from orchestration.commands.status import snapshot_line
from orchestration.stack.mysql.server import MySqlServer
from tests.support.odd_names import ODD_NAMES
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration
NOWHERE = "sc://127.0.0.1:1"


def claimed(shop: Shop) -> Claim:
    return shop.claim(10, owner="run")


def test_claims_name_the_open_snapshots(mysql8: MySqlServer, tmp_path: Path) -> None:
    """From the registration on, with the table's changes or without. An ack of changes is noted; one of a DDL statement
    breaks the snapshot, and later claims do not name it."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        snapshots, table = shop.connector.snapshots, f"{shop.database}.t"
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
        created = claimed(shop)
        assert "snapshots" not in created.to_dict()
        shop.connector.ack(created)
        opened = snapshots.open(table, owner="a", first=True)
        progress = Progress(low=created.end, groups=2, of_groups=9, behind="['x']")
        assert snapshots.note(opened, progress).progress == progress
        assert snapshots.renew(opened).progress == progress
        with pytest.raises(SessionError, match="a reads"):
            snapshots.open(table, owner="b")
        shop.execute("INSERT INTO t VALUES (1)")
        claim = claimed(shop)
        assert (claim.snapshots, claim.stopped) == (((table, opened.id),), (table,))
        shop.connector.ack(claim)
        shop.execute("INSERT INTO other VALUES (1)")
        later = claimed(shop)
        assert later.snapshots == claim.snapshots
        shop.connector.ack(later)
        (shown,) = shop.connector.client_status().snapshots
        assert (shown.acked, shown.broken) == (claim.end, "")
        assert snapshot_line(shown) == f"{table}: a reads it, 2 of about 9 groups of chunks done"
        assert snapshot_line(replace(shown, owner=FIRST_START)).startswith(
            f"{table}: the rows of before the capture wait"
        )
        shop.execute("ALTER TABLE t ADD COLUMN a INT")
        shop.connector.ack(claimed(shop))
        (shown,) = shop.connector.client_status().snapshots
        assert "begins again: the table's definition changed" in snapshot_line(shown)
        shop.execute("INSERT INTO t VALUES (2, 2)")
        assert claimed(shop).snapshots == ()
        snapshots.close(opened)
        assert shop.connector.client_status().snapshots == ()


def test_a_snapshot_of_a_table_of_any_name(mysql8: MySqlServer, tmp_path: Path) -> None:
    """The name is part of the call's path. A run breaks a snapshot; anybody cancels it."""
    with opened_shop(mysql8, NOWHERE, tmp_path) as shop:
        snapshots = shop.connector.snapshots
        for name in (full_name("my.shop", one) for one in ODD_NAMES):
            opened = snapshots.open(name, owner="a")
            snapshots.break_off(name, opened.id, "row images leave columns out")
            assert snapshots.renew(opened).broken == "row images leave columns out"
            snapshots.cancel(name)
            with pytest.raises(SessionError, match="was cancelled"):
                snapshots.renew(opened)

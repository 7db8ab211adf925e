"""A column that the source drops and the table keeps (`ddl.changed: lenient`): its values are those of the row, in the
table and in all that is made of its log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_core.errors import LakeError
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.lake.policies import Changed, Policies, TablePolicy
from spark_jobs.landing.modes import Mode
from spark_jobs.undo.restore import Restorer
from spark_jobs.verify.comparer import TableComparer
from spark_jobs.verify.history import histories_compared
from tests.support.landed import LandedShop, opened_landed
from tests.support.small_lake import source_of

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> Iterator[LandedShop]:
    with opened_landed(mysql8, spark_remote, tmp_path) as shop:
        shop.lake = replace(shop.lake, policies=Policies(TablePolicy(changed=Changed.LENIENT)))
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)")
        shop.execute("INSERT INTO t VALUES (1, 1, 111), (2, 2, 222), (3, 3, 333), (4, 4, 444)")
        assert shop.land() == []
        shop.keep("t")
        shop.execute("ALTER TABLE t DROP COLUMN w")
        assert shop.land() == []
        shop.keep("t")
        yield shop


@pytest.mark.full
def test_a_row_keeps_its_value_and_its_key_does_not(shop: LandedShop) -> None:
    """In the view before the merge, in the table after it, in one part as in two. The history agrees with the table,
    also when it is compared for another reason."""
    shop.execute("UPDATE t SET v = 20 WHERE id = 1", "DELETE FROM t WHERE id = 2", "UPDATE t SET id = 2 WHERE id = 3")
    shop.execute("DELETE FROM t WHERE id = 4", "INSERT INTO t VALUES (4, 40)")
    assert shop.land() == []
    expected = {(1, 20, 111): 1, (2, 3, None): 1, (4, 40, None): 1}
    assert shop.now("t") == expected
    shop.keep("t")
    assert shop.merged("t") == shop.now("t") == expected
    comparer = TableComparer(shop.connector, source_of(shop), shop.lake.lake)
    for _ in range(2):
        (found,) = histories_compared(comparer, [shop.named("t")])
        assert found.comparison is not None, found.error
        assert found.differences == 0
        before = [row["id"] for row in shop.history("t")]
        shop.execute("ALTER TABLE t COMMENT 'a comparison is due'")
        assert shop.land() == []
        shop.keep("t")
        assert [row["id"] for row in shop.history("t")] == before


def test_a_place_between_two_merges_is_refused(shop: LandedShop) -> None:
    """The log has no values of the column, so a restore would take them for NULL for good."""
    shop.execute("UPDATE t SET v = 20 WHERE id = 1")
    assert shop.land() == []
    place = shop.connector.client_status().cursor
    shop.execute("UPDATE t SET v = 30 WHERE id = 3")
    assert shop.land() == []
    shop.merger().whole(shop.named("t"))
    with pytest.raises(LakeError, match="keep their values of column w") as refused:
        Restorer(shop.follows, shop.lake.sessions, "run").plan(str(place))
    assert "Restore to another place" in refused.value.hint


def test_images_that_leave_columns_out_are_enough_where_no_key_gets_another_row(shop: LandedShop) -> None:
    """Deletes alone, updates, new rows, moved rows and a key that was free: the net changes say all that is asked. A
    key that another row gets within a claim stops its table, before the row has a value that was not its own."""
    minimal = "SET SESSION binlog_row_image = MINIMAL"
    shop.mode = Mode.MERGE
    shop.run()
    shop.execute(minimal, "DELETE FROM t WHERE id = 1")
    assert shop.drain() == []
    assert shop.merged("t") == {(2, 2, 222): 1, (3, 3, 333): 1, (4, 4, 444): 1}
    shop.execute(minimal, "INSERT INTO t VALUES (1, 10)", "DELETE FROM t WHERE id = 2")
    shop.execute(minimal, "UPDATE t SET v = 30 WHERE id = 3", "UPDATE t SET id = 5 WHERE id = 4")
    assert shop.drain() == []
    assert shop.merged("t") == {(1, 10, None): 1, (3, 30, 333): 1, (5, 4, None): 1}
    shop.execute(minimal, "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (3, 31)")
    assert shop.drain() == [shop.named("t")]
    (stop,) = shop.connector.client_status().stopped
    assert "a key got another row, and the table keeps what the source has dropped (w)" in stop.reason
    assert "binlog_row_image=FULL" in stop.hint
    assert shop.merged("t") == {(1, 10, None): 1, (3, 30, 333): 1, (5, 4, None): 1}

"""Rows and statements that come again, after a rewind and after a failover by time, on a real Spark server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from cdc_core.schema.ddl import EffectKind
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.ledger import Ledger
from spark_jobs.session import Sessions
from tests.support.ddl_claims import effect, statement
from tests.support.lake_trial import LakeTrial, inserts
from tests.support.spark_feed import Change, Table, feed

pytestmark = pytest.mark.integration

OLD = pa.schema({"id": pa.int64(), "what": pa.string()})
NEW = OLD.append(pa.field("late", pa.int64()))


@pytest.fixture(scope="module")
def sessions(spark_remote: str) -> Iterator[Sessions]:
    with Sessions(spark_remote) as pool:
        yield pool


def test_what_comes_again_from_another_server(sessions: Sessions, tmp_path: Path) -> None:
    """Rows from before a column was added keep the column's values. A TRUNCATE of a table without a key, and a RENAME
    to a table that is there, ask for a copy; both tables keep their rows."""
    with feed() as service:
        trial = LakeTrial(service, sessions, tmp_path)
        service.put(Table("orders", NEW, key=("id",)), [Change(100, None, (1, "x", 7)), Change(100, None, (2, "x", 7))])
        service.put(Table("notes", OLD, key=()), inserts(1, at=100))
        service.put(Table("sold", OLD, key=("id",)), inserts(9, at=100))
        trial.apply(0, 150)

        for changes in service.changes.values():
            changes.clear()
        service.put(Table("orders", OLD, key=("id",)), [Change(50, (1, "x"), (1, "y")), Change(60, None, (3, "z"))])
        trial.apply(40, 70, epoch=2, moved=2)
        assert trial.rows("orders") == {(1, "y", 7): 1, (2, "x", 7): 1, (3, "z", None): 1}
        truncate = statement(80, effect(EffectKind.TRUNCATE, "notes"))
        rename = statement(90, effect(EffectKind.RENAME, "orders", to="sold"))
        refused = trial.apply(70, 95, truncate, rename, epoch=2, moved=2).refused

    assert [(one.table, type(one.error)) for one in refused] == [("shop.notes", CopyNeeded), ("shop.sold", CopyNeeded)]
    assert (trial.rows("notes"), trial.rows("sold")) == ({(1, "x"): 1}, {(9, "x"): 1})


def test_what_comes_again_after_a_rewind(sessions: Sessions, tmp_path: Path) -> None:
    """A table without a key leaves the rows out that it has, so it leaves the statements out too: a TRUNCATE, and a
    CREATE whose definition is not known. One of which an unknown part is there asks for a copy."""
    with feed() as service:
        trial = LakeTrial(service, sessions, tmp_path)
        service.put(Table("notes", OLD, key=()), [*inserts(1, at=100), *inserts(2, at=300)])
        ddl = [statement(50, effect(EffectKind.CREATE, "notes")), statement(200, effect(EffectKind.TRUNCATE, "notes"))]
        for start, end, *texts in ((20, 150, ddl[0]), (150, 300, ddl[1])):
            claim = trial.claim(start, end, *texts)
            ledger = Ledger(trial.lake, claim.destination, claim.client_id)
            batch = trial.apply(start, end, *texts)
            ledger.note(claim, batch.notes({}), "run", 0.0)
        assert trial.rows("notes") == {(2, "x"): 1}
        for start, end, *texts in ((20, 150, ddl[0]), (150, 300, ddl[1])):
            assert not trial.apply(start, end, *texts, epoch=2).refused
        assert trial.rows("notes") == {(2, "x"): 1}

        (refused,) = trial.apply(0, 10, statement(10, effect(EffectKind.TRUNCATE, "notes")), epoch=3).refused
    assert isinstance(refused.error, CopyNeeded)

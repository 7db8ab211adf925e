"""Rows and statements that come again, after a rewind and after a failover by time, on a real Spark server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc_core.schema.ddl import ChangeKind, Effect, EffectKind
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.ledger import Ledger
from spark_jobs.session import Sessions
from tests.support.ddl_claims import alter, change, effect, schema, statement
from tests.support.lake_trial import LakeTrial, inserts
from tests.support.spark_feed import Change, Table, feed

pytestmark = pytest.mark.integration

OLD = pa.schema({"id": pa.int64(), "what": pa.string()})
NEW = OLD.append(pa.field("late", pa.int64()))


def test_what_comes_again_from_another_server(sessions: Sessions, tmp_path: Path) -> None:
    """Rows from before a column was added keep the column's values. An ALTER of a table without a key, and a RENAME to
    a table that is there, ask for a copy; both tables keep their rows."""
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
        added = statement(80, alter(schema("notes", key=()), None, change(ChangeKind.ADD_COLUMN, "n", "INT")))
        rename = statement(90, effect(EffectKind.RENAME, "orders", to="sold"))
        refused = trial.apply(70, 95, added, rename, epoch=2, moved=2).refused

    assert [(one.table, type(one.error)) for one in refused] == [("shop.notes", CopyNeeded), ("shop.sold", CopyNeeded)]
    assert (trial.rows("notes"), trial.rows("sold")) == ({(1, "x"): 1}, {(9, "x"): 1})


DROP = effect(EffectKind.DROP, "notes")
CREATE = effect(EffectKind.CREATE, "notes", schema=schema("notes", key=()))
FRESH = effect(EffectKind.CREATE, "fresh", schema=schema("fresh", key=()))
RENAMED = effect(EffectKind.RENAME, "fresh", to="notes")


def _more(anew: list[Effect], *, stopped: bool = False, dropped: bool = False, name: str) -> Any:
    return pytest.param(anew, stopped, dropped, id=name, marks=pytest.mark.full)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("anew", "stopped", "dropped"),
    [
        pytest.param([effect(EffectKind.TRUNCATE, "notes")], True, False, id="truncate of a stopped one"),
        pytest.param([DROP, CREATE], False, False, id="drop, create"),
        pytest.param([FRESH, RENAMED], False, True, id="another renamed to its name, which was dropped"),
        _more([effect(EffectKind.TRUNCATE, "notes")], name="truncate"),
        _more([DROP, effect(EffectKind.CREATE, "notes")], name="drop, create of an unknown definition"),
        _more([DROP, effect(EffectKind.CREATE, "notes")], stopped=True, name="the same of a stopped one"),
        _more([DROP], name="drop"),
        _more([CREATE], name="create or replace"),
        _more([CREATE], dropped=True, name="create of one that was dropped"),
        _more([FRESH, DROP, RENAMED], stopped=True, name="another renamed to the name of a stopped one"),
        _more([effect(EffectKind.DROP_DATABASE, ""), CREATE], name="drop database, create"),
    ],
)
def test_a_table_without_a_key_begins_again_at_another_server(
    sessions: Sessions, tmp_path: Path, anew: list[Effect], stopped: bool, dropped: bool
) -> None:
    """What the lake had of it from the first server does not count: it goes on, in later claims too, and so it does
    after the next time; also where rows that came again had stopped it, and where it was dropped at the first server.
    A run that died before the ack finds all done."""
    with feed() as service:
        trial = LakeTrial(service, sessions, tmp_path)
        notes = Table("notes", OLD, key=())
        service.put(notes, [*inserts(1, 1, at=100), *inserts(2, at=140)])
        trial.apply(0, 150)
        if dropped:
            trial.apply(150, 160, statement(160, DROP))

        service.changes["shop.notes"].clear()
        service.put(notes, [*inserts(2, 2, at=60), *inserts(3, at=80)])
        for _ in range(2):
            batch = trial.apply(
                40, 70, statement(50, *anew), epoch=2, moved=2, stopped=["shop.notes"] if stopped else []
            )
            assert not batch.refused
            assert trial.rows("notes") == {(2, "x"): 2}
        assert not trial.apply(70, 90, epoch=2, moved=2).refused
        assert trial.rows("notes") == {(2, "x"): 2, (3, "x"): 1}

        service.put(notes, [*inserts(4, at=120), Change(140, (4, "x"), (5, "x"))])
        again = [DROP, *anew] if dropped else anew
        assert not trial.apply(90, 130, statement(110, *again), epoch=2, moved=2).refused
        assert not trial.apply(130, 150, epoch=2, moved=2).refused
        assert trial.rows("notes") == {(5, "x"): 1}


def test_what_comes_again_after_a_rewind(sessions: Sessions, tmp_path: Path) -> None:
    """A table without a key leaves the rows out that it has, so it leaves the statements out too: a TRUNCATE, and a
    CREATE whose definition is not known. One of which an unknown part is there asks for a copy; not one that was
    emptied since."""
    with feed() as service:
        trial = LakeTrial(service, sessions, tmp_path)
        service.put(Table("notes", OLD, key=()), [*inserts(1, at=100), *inserts(2, at=300)])
        service.put(Table("others", OLD, key=()), inserts(1, at=100))
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

        added = (
            alter(schema(name, key=()), None, change(ChangeKind.ADD_COLUMN, "n", "INT")) for name in ("notes", "others")
        )
        (refused,) = trial.apply(0, 10, statement(10, *added), epoch=3).refused
        assert trial.rows("notes") == {(2, "x"): 1}
    assert refused.table == "shop.others"
    assert isinstance(refused.error, CopyNeeded)

"""Which tables begin with a snapshot, and which wait for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_core.client.connector import Connector
from cdc_core.contract.snapshot import Snapshot
from cdc_core.contract.stopped_table import CHANGES_PURGED, PAUSED, StoppedTable
from cdc_core.rules.claims import HIDING
from cdc_core.schema.ddl import Ddl, Effect, EffectKind
from cdc_core.schema.table import TableSchema
from orchestration.first_rows import REASON, FirstRows, waiting
from spark_jobs.lake.consent import EXCEPTION, PROPOSAL, REJECTED, TAKES_DELETED
from tests.support.canal_double import ORDERS, USERS, MemoryCanal, position

KEYLESS = TableSchema("shop", "log", ORDERS.columns)


def first_rows(canal: Connector, *there: TableSchema) -> FirstRows:
    """Of a lake that has these tables."""
    return FirstRows(canal, lambda table: table in there)


def test_tables_that_the_lake_does_not_have_begin() -> None:
    """One with a key is registered; one without is stopped, with the command in its hint. Once."""
    canal = MemoryCanal(tables=(ORDERS, USERS, KEYLESS))
    assert first_rows(canal, USERS).begin(canal.schemas, position(0)) == ["shop.orders", "shop.log"]
    assert [one.table for one in canal.snapshots.opened] == ["shop.orders"]
    stop = canal.stopped[1]
    assert (stop.table, stop.reason, stop.copy_needed) == ("shop.log", REASON, True)
    assert "sluice snapshot shop shop.log" in stop.hint
    assert first_rows(canal, USERS).begin(canal.schemas, position(0)) == []


def test_a_table_that_the_claim_makes_needs_no_snapshot() -> None:
    """Its first row is in the stream. Of another one only these rows would be in the lake."""
    canal = MemoryCanal(batches=1)
    claim = canal.get_without_ack(10, owner="run")
    assert claim is not None
    made = Ddl(position(0), "shop", "CREATE TABLE users", effects=(Effect(EffectKind.CREATE, "shop", "users"),))
    assert first_rows(canal).begin_of(replace(claim, ddl=(made,))) == ["shop.orders"]


def test_what_nobody_reads_is_read() -> None:
    """A first snapshot whose reader is gone, a table without a key, one that a reset stopped, and what a job read that
    is gone; not one that was cancelled or is being read."""
    stops = [StoppedTable(name, "first", "", None) for name in ("s.gone", "s.read", "s.cancelled")]
    opened = [Snapshot("s.gone", "1", "a", 30, 90.0, 0), Snapshot("s.read", "2", "b", 30, 110.0, 0)]
    opened.append(Snapshot("s.again", "3", "c", 30, 90.0, 0))  # the lake has it: a person's
    opened += [Snapshot("s.job", "4", "job-1", 30, 90.0, 0), Snapshot("s.runs", "5", "job-2", 30, 110.0, 0)]
    others = [StoppedTable("s.keyless", REASON, "", None), StoppedTable("s.reset", CHANGES_PURGED, "", None)]
    client = replace(MemoryCanal().client_status(), stopped=(*stops, *others), snapshots=tuple(opened))
    assert waiting(client, now=100.0, complete=False) == ["s.gone", "s.job", "s.keyless", "s.reset"]


def test_what_the_stream_cannot_complete_is_reloaded() -> None:
    """Where changes have passed or the rows are wrong; not what a policy leaves to a person, what a person paused, or
    what somebody reads."""
    stops = (
        StoppedTable("s.passed", "?", "", None, passed=position(1)),
        StoppedTable("s.wrong", "?", "", None, copy_needed=True),
        StoppedTable("s.waits", f"{PROPOSAL}: ALTER", "", None, passed=position(1)),
        StoppedTable("s.paused", f"{PAUSED}for a while", "", None, passed=position(1)),
        StoppedTable("s.fresh", "?", "", None),
        StoppedTable("s.read", "?", "", None, copy_needed=True),
    )
    opened = (Snapshot("s.read", "1", "a person", 30, 110.0, 0),)
    client = replace(MemoryCanal().client_status(), stopped=stops, snapshots=opened)
    assert waiting(client, now=100.0, complete=True) == ["s.passed", "s.wrong"]
    assert waiting(client, now=100.0, complete=False) == []


@pytest.mark.parametrize("reason", [PROPOSAL, REJECTED, EXCEPTION, TAKES_DELETED, HIDING])
def test_what_waits_for_consent_is_not_read(reason: str) -> None:
    """Also if a snapshot of it had begun by then, whose reader is gone: a person's, or a job's."""
    names = ("s.stopped", "s.begun", "s.job")
    stops = tuple(StoppedTable(name, f"{reason}: ...", "", None, copy_needed=True) for name in names)
    opened = Snapshot("s.begun", "1", "a", 30, 90.0, 0), Snapshot("s.job", "2", "job-1", 30, 90.0, 0)
    client = replace(MemoryCanal().client_status(), stopped=stops, snapshots=opened)
    assert waiting(client, now=100.0, complete=True) == []
    lifted = replace(client, stopped=())
    assert waiting(lifted, now=100.0, complete=True) == ["s.job"]

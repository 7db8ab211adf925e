"""Definitions that nothing needs any more go, from memory and from disk; what is left means what it meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_core.destination.capture import Capture
from cdc_core.destination.rewind import RewindTarget, carry_out, plan
from cdc_core.destination.sweep import Sweep
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.nodes import MemoryNodes, Nodes
from cdc_core.rows.batches import read
from cdc_core.rows.net import plan_net
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.store.disk import numbers
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, all_read, claim, config, drain, execute, on_disk, running, until
from tests.support.doubles import table


def test_two_looks_that_find_it_unused_retire_a_definition() -> None:
    """Not the first one, not within a statement, and not before there are many."""
    registry, used, now, within = SchemaRegistry(), {0, 1, 2, 3}, 0.0, True
    for number in range(3):
        registry.intern(table(f"shop.t{number}"))
    sweep = Sweep(registry, lambda: used, lambda: not within, least=4, clock=lambda: now)
    sweep.look()
    registry.intern(table("shop.t3"))
    sweep.look()
    within, used = False, {2, 3}
    sweep.look()
    assert registry.numbers() == {0, 1, 2, 3}
    now, used = 100.0, {0, 3}
    sweep.look()
    assert registry.numbers() == {0, 2, 3}
    now, used = 200.0, set()
    sweep.look()  # three are not many
    assert registry.held == 3


@pytest.fixture
def shop(mysql8: MySqlServer) -> Iterator[str]:
    with mysql8.database() as name:
        execute(mysql8, name, "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)")
        yield name


def alters(mysql: MySqlServer, shop: str, low: int, high: int) -> None:
    """So many definitions of a table, each with one row."""
    for number in range(low, high):
        execute(mysql, shop, f"ALTER TABLE t ADD c{number} INT")
        execute(mysql, shop, f"INSERT INTO t (id, c{number}) VALUES ({number}, {number})")


def eager(capture: Capture) -> Sweep:
    """Its sweep, which looks after each block."""
    sweep: Sweep = capture._sweep
    sweep.least, sweep.clock = 1, iter(range(0, 1 << 30, 100)).__next__
    sweep._due = 0
    return sweep


def looked(capture: Capture, act: Callable[[], Any], least: int) -> None:
    """Does something that makes blocks until so few definitions are held."""

    def enough() -> bool:
        act()
        capture._sweep._due = 0
        return capture.registry.held <= least

    until(enough, capture)


@pytest.mark.integration
def test_in_memory_what_was_acked_goes(mysql8: MySqlServer, shop: str) -> None:
    """A definition that comes again has a new number; claims that are out read their rows."""
    with running(config(mysql8, shop, flush_ms=50), MemoryNodes()) as capture:
        eager(capture)
        execute(mysql8, shop, "INSERT INTO other VALUES (0)")
        alters(mysql8, shop, 0, 12)
        drain(capture, 13)
        more = iter(range(1, 10_000))
        looked(capture, lambda: execute(mysql8, shop, f"INSERT INTO other VALUES ({next(more)})"), 3)
        execute(mysql8, shop, "INSERT INTO t (id, c11) VALUES (100, 7)")
        all_read(capture, mysql8)
        assert len(capture.registry) > 13
        assert rows(capture, f"{shop}.t") == [100]


@pytest.mark.integration
def test_on_disk_what_no_volume_has_goes(
    mysql8: MySqlServer, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is written again with the numbers that are left. After a restart they mean what they meant, also where a
    rewind goes back within the store; one before it has its definitions from the history."""
    monkeypatch.setattr(numbers, "_RETIRED", 3)
    nodes: Nodes = MemoryNodes()
    own = on_disk(mysql8, shop, tmp_path, flush_ms=50, store_retention_bytes=0)
    with running(own, nodes) as capture:
        assert capture.kept is not None
        capture.kept.keeper._volumes._volume_bytes = 2000
        capture.kept.keeper._flush_seconds = 0.05
        eager(capture)
        alters(mysql8, shop, 0, 1)
        begun = claim(capture).start
        alters(mysql8, shop, 1, 12)
        capture.service.rollback(CLIENT, None, None, "test")
        drain(capture, 12)
        more = iter(range(1, 10_000))

        def other() -> None:
            execute(mysql8, shop, f"INSERT INTO other VALUES ({next(more)})")
            drain(capture, 1)

        looked(capture, other, 2)
        until(lambda: any(isinstance(one, int) for one in lines(tmp_path)), capture)
        given = len(capture.registry)
        execute(mysql8, shop, "INSERT INTO t (id, c11) VALUES (100, 7)")
        all_read(capture, mysql8)
        assert rows(capture, f"{shop}.t") == [100]
    known = lines(tmp_path)
    assert sum(isinstance(one, dict) for one in known) < 8
    assert sum(one if isinstance(one, int) else 1 for one in known) >= given

    with running(own, nodes) as capture:
        assert len(capture.registry) >= given
        assert capture.kept is not None
        assert capture.kept.start is not None
        assert rows(capture, f"{shop}.t") == [100]
        place = claim(capture).start
        capture.service.rollback(CLIENT, None, None, "test")
        drain(capture, 1)
        kept = capture.kept.places()
        within, before = (
            plan(capture.settings, Cursors(nodes, "shop"), RewindTarget(to, CLIENT), kept=kept) for to in (place, begun)
        )
    for planned, ids in ((within, [100]), (before, [0])):
        carry_out(Cursors(nodes, "shop"), planned)
        with running(own, nodes) as capture:
            assert rows(capture, f"{shop}.t") == ids


def lines(path: Path) -> list[Any]:
    """What the file of definitions has: definitions, and how many are retired."""
    text = (path / "shop" / "definitions").read_text()
    return [json.loads(line.partition(" ")[2]) for line in text.splitlines()]


def rows(capture: Capture, name: str) -> list[int]:
    """The ids of a table's rows that are not acked."""
    service = capture.service
    found = claim(capture, owner="look")
    ids: list[int] = []
    if name in found.table_names:
        slices = service.slices(CLIENT, found.batch_id)
        planned = plan_net(slices, service.registry, name)
        ids = [value for batch in read(planned) for value in batch.column("id").to_pylist()]
    service.rollback(CLIENT, None, None, "test")
    return sorted(ids)

"""The stages that a dump is in, over a pair of sockets: it waits, receives, and cuts."""

from __future__ import annotations

import socket
import threading

import pytest

from cdc_core.binlog.block import Block
from cdc_core.errors import SourceUnavailable
from cdc_core.source.dump import Dump
from cdc_core.source.framing import Framer
from cdc_core.source.settings import SourceSettings
from tests.support.binlog_stream import opening, packets, transactions
from tests.support.waiting import until

SETTINGS = SourceSettings("db", 3306, "reader", "secret")


def test_it_waits_receives_and_decodes() -> None:
    """Whoever is handed a block was in `decode`; a source that sends nothing is waited for in `quiet`."""
    here, there = socket.socketpair()
    entered: list[str | None] = []
    at_block: list[str | None] = []

    def take(_: Block) -> None:
        at_block.append(entered[-1])

    dump, stop = Dump(SETTINGS, on_block=take, enter=lambda stage, _at: entered.append(stage)), threading.Event()
    framer = Framer("mysql-bin.000001", 4, checksum=True)

    def read() -> None:
        with pytest.raises(SourceUnavailable):
            dump._stream(here, framer, stop)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        until(lambda: entered[-1:] == ["quiet"], 10)
        there.sendall(packets([*opening(), *transactions(3, 100)]))
        until(lambda: at_block and entered[-1] == "quiet", 10)
    finally:
        there.close()
        thread.join(10)
        here.close()
    assert set(at_block) == {"decode"}
    assert set(entered) == {"quiet", "network", "decode"}
    assert entered[0] == entered[-1] == "network"


def test_a_dump_that_ends_is_in_no_stage() -> None:
    """It waits in `network` between two attempts, and leaves that when it is stopped."""
    entered: list[str | None] = []
    stop = threading.Event()
    lost: list[str | None] = []

    def note(_error: SourceUnavailable, _seconds: float) -> None:
        lost.append(entered[-1])
        stop.set()

    away = SourceSettings("127.0.0.1", 1, "reader", "secret", connect_timeout=1)
    dump = Dump(away, on_block=lambda _: None, on_lost=note, enter=lambda stage, _at: entered.append(stage))
    dump.run(lambda _: pytest.fail("connected"), stop)
    assert lost == ["network"]
    assert entered[-1] is None

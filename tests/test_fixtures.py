"""Binlogs captured from each server, decoded without any: what is left is what the server selected then."""

from __future__ import annotations

import pytest

from cdc_core.binlog.events import EventType
from tests.binlog_stream import packets
from tests.decoding import decoded, rows_left
from tests.fixtures.captured import NAMES, captured


def test_all_servers_are_there() -> None:
    """A fixture that is lost would not be missed otherwise."""
    assert {name.partition("_")[0] for name in NAMES} == {"mysql57", "mysql8", "mysql9", "mariadb"}


@pytest.mark.parametrize("name", NAMES)
def test_all_is_in_them(name: str) -> None:
    """What is rare in a binlog: transactions in two phases, images that leave columns out, parts of documents, and the
    types of some servers alone."""
    log, server = captured(name), name.partition("_")[0]
    types = {event[4] for event in log.events}
    own = {"mysql9": {"captured.vectors"}, "mariadb": {"captured.addresses"}}.get(server, set())

    assert {"captured.slim", "captured.branches", "captured.places", "captured.derived", *own} <= log.rows.keys()
    if "payload" not in name:
        assert EventType.XA_PREPARE in types
        assert (EventType.PARTIAL_UPDATE_ROWS in types) == (server in ("mysql8", "mysql9"))


@pytest.mark.parametrize("name", NAMES)
def test_decoded_is_what_the_server_selected(name: str) -> None:
    """Every table: each row, each value as text."""
    log = captured(name)
    found = rows_left(decoded(packets(log.events), log.resolve, journal=log.journal))
    assert found == log.rows

"""Binlogs captured from each server, decoded without one: the rows left are those that the server selected then."""

from __future__ import annotations

import pytest

from cdc_core.binlog.events import EventType
from tests.fixtures.captured import NAMES, captured
from tests.support.binlog_stream import packets
from tests.support.decoding import decoded, rows_left


def test_all_servers_are_there() -> None:
    """No captured binlog is missing."""
    assert {name.partition("_")[0] for name in NAMES} == {"mysql57", "mysql8", "mysql9", "mariadb"}


@pytest.mark.parametrize("name", NAMES)
def test_the_captures_hold_the_rare_events(name: str) -> None:
    """The captures hold what is rare: XA in two phases, partial images and documents, types of a single server."""
    log, server = captured(name), name.partition("_")[0]
    types = {event[4] for event in log.events}
    own = {"mysql9": {"captured.vectors"}, "mariadb": {"captured.addresses"}}.get(server, set())

    assert {"captured.slim", "captured.branches", "captured.places", "captured.derived", *own} <= log.rows.keys()
    if "payload" not in name:
        assert EventType.XA_PREPARE in types
        assert (EventType.PARTIAL_UPDATE_ROWS in types) == (server in ("mysql8", "mysql9"))


@pytest.mark.parametrize("name", NAMES)
def test_decoded_is_what_the_server_selected(name: str) -> None:
    """Each value of each row of every table agrees, as text."""
    log = captured(name)
    found = rows_left(decoded(packets(log.events), log.resolve, journal=log.journal))
    assert found == log.rows

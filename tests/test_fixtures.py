"""Binlogs captured from each server, decoded without any: what is left is what the server selected then."""

from __future__ import annotations

import pytest

from tests.binlog_stream import packets
from tests.decoding import decoded, rows_left
from tests.fixtures.captured import NAMES, captured


def test_all_servers_are_there() -> None:
    """A fixture that is lost would not be missed otherwise."""
    assert {name.partition("_")[0] for name in NAMES} == {"mysql57", "mysql8", "mysql9", "mariadb"}


@pytest.mark.parametrize("name", NAMES)
def test_decoded_is_what_the_server_selected(name: str) -> None:
    """Every table: each row, each value as text."""
    log = captured(name)
    found = rows_left(decoded(packets(log.events), log.resolve, journal=log.journal))
    assert found == log.rows

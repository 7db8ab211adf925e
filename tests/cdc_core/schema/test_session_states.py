"""What a statement means in sessions of every state, compared with what real servers make of it."""

from __future__ import annotations

import pytest

from cdc_core.binlog.query_event import session_of
from cdc_core.schema.session_state import SessionState
from tests.support.old_values import compare


def variable(code: int, value: bytes) -> bytes:
    return bytes([code]) + value


MODE = variable(1, (1 << 20 | 1 << 21).to_bytes(8, "little"))
CHARSET = variable(4, bytes([45, 0, 8, 0, 255, 0]))
BEFORE = variable(0, bytes(4)) + MODE + variable(6, b"\3std") + variable(3, bytes(4)) + CHARSET
BETWEEN = (
    variable(5, b"\6+05:30") + variable(7, b"\1\0") + variable(8, b"\x08\0") + variable(9, bytes(8))
    + variable(11, b"\4root\0") + variable(12, b"\2one\0two\0") + variable(13, bytes(3))
)  # fmt: skip


def test_all_variables_of_mysql() -> None:
    """Those after variables of any length are found, and each is known."""
    data = BEFORE + BETWEEN + variable(16, b"\0") + variable(17, bytes(8)) + variable(18, b"\x2d\0") + b"\x13\1\x14\0"
    assert session_of(data, mariadb=False) == SessionState(3 << 20, 45, 8, 255, 45, explicit_timestamps=False)


def test_all_variables_of_mariadb() -> None:
    """Its own are of other lengths; half an ALTER has a number, and other default collations are not modelled."""
    data = BEFORE + BETWEEN + variable(128, bytes(3)) + variable(129, bytes(8)) + variable(130, b"\2\0")
    assert session_of(data, mariadb=True).modelled
    assert session_of(data + variable(130, b"\4\0" + bytes(8)) + MODE, mariadb=True).modelled
    assert not session_of(data + variable(131, b"\1" + bytes(4)), mariadb=True).modelled


def test_mariadbs_flag_of_timestamps() -> None:
    """0x1000000, as its events have it; older servers do not log it, so that without it nothing is known."""
    assert session_of(variable(0, b"\0\0\0\1") + MODE, mariadb=True).explicit_timestamps is True
    assert session_of(variable(0, bytes(4)) + MODE, mariadb=True).explicit_timestamps is None


@pytest.mark.parametrize("data", [MODE + variable(77, b"\1"), MODE[:-1], MODE + b"\5", MODE + b"\x0c\2one", CHARSET])
def test_an_unknown_variable_leaves_values_unknown(data: bytes) -> None:
    """So does one that is cut, and a session whose mode the event does not have."""
    assert not session_of(data, mariadb=False).modelled


@pytest.mark.integration
@pytest.mark.parametrize("name", ["mysql8", pytest.param("mysql57", marks=pytest.mark.full),
                                  pytest.param("mysql9", marks=pytest.mark.full), "mariadb"])  # fmt: skip
def test_old_values_are_the_servers(name: str, request: pytest.FixtureRequest) -> None:
    """For random types, defaults and sessions: what we compute is the server's, and the rest is left to a copy."""
    tally = compare(request.getfixturevalue(name), seed=25, count=40)

    assert not tally.faults
    assert tally.computed > 1
    assert tally.copied > 1

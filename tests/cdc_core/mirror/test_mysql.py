"""Which of MySQL's errors are about rows, and which pass."""

from __future__ import annotations

import pytest
from pymysql.err import DataError, IntegrityError, InterfaceError, InternalError, OperationalError

from cdc_core.mirror.mysql import MySql


@pytest.mark.parametrize(
    ("error", "refuses"),
    [
        (DataError(1406, "Data too long for column"), True),
        (IntegrityError(1062, "Duplicate entry"), True),
        (OperationalError(1644, "a trigger's"), True),
        (InternalError(1713, "Undo log record is too big"), True),
        (OperationalError(1290, "--read-only"), False),
        (OperationalError(1213, "Deadlock"), False),
        (OperationalError(1053, "Server shutdown in progress"), False),
        (OperationalError(2013, "Lost connection"), False),
        (InterfaceError(0, ""), False),
    ],
)
def test_what_is_refused(error: Exception, refuses: bool) -> None:
    """A refusal stops the mirror with its table; all others are waited for, for ever."""
    server = MySql("h", 3306, "u", "d", "p")
    assert server.refuses(error) is refuses
    assert server.is_gone(error) is not refuses

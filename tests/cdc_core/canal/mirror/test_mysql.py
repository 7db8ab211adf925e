"""Which of MySQL's errors are about rows, and which pass; how a server is made to replace rows."""

from __future__ import annotations

import pytest
from pymysql.err import DataError, IntegrityError, InterfaceError, InternalError, OperationalError

from cdc_core.canal.mirror.mysql import MySql
from cdc_core.canal.mirror.mysql_rows import dialect_of


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


@pytest.mark.parametrize(
    ("version", "ending"),
    [
        ("8.0.31", "AS _sluice_new ON DUPLICATE KEY UPDATE `a` = _sluice_new.`a`"),
        ("9.1.0-log", "AS _sluice_new ON DUPLICATE KEY UPDATE `a` = _sluice_new.`a`"),
        ("8.0.19", "ON DUPLICATE KEY UPDATE `a` = VALUES(`a`)"),
        ("5.7.44-log", "ON DUPLICATE KEY UPDATE `a` = VALUES(`a`)"),
        ("5.5.5-10.11.6-MariaDB", "ON DUPLICATE KEY UPDATE `a` = VALUES(`a`)"),
        ("11.4.2-MariaDB-ubu2404", "ON DUPLICATE KEY UPDATE `a` = VALUES(`a`)"),
    ],
)
def test_how_rows_are_replaced(version: str, ending: str) -> None:
    """By the way of which that server does not warn, row by row of its answer."""
    assert dialect_of(version).replaces(("a",), ("a",)) == ending

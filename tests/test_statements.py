"""What statements mean, however they are written."""

from __future__ import annotations

import time

import pytest

from cdc_core.binlog.statements import Meaning, meaning


@pytest.mark.parametrize("unit", ["/*", "'\\", '"\\', "/*!", "/*M!", "`", "``'", "-- ", "#", "(", " "])
def test_no_statement_takes_long(unit: str) -> None:
    """A megabyte of what opens and is never closed; a statement may have many."""
    started = time.process_time()
    meaning(f"CREATE TABLE t (a INT) {unit * (1_000_000 // len(unit))}")
    assert time.process_time() - started < 30


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE TABLE t (a INT COMMENT 'it''s /* no */ SELECT')", Meaning.DDL),
        ("CREATE TABLE t (a CHAR(1) DEFAULT '\\') SELECT 1", Meaning.CHANGE),  # with NO_BACKSLASH_ESCAPES that is
        ("/* INSERT */ TRUNCATE t", Meaning.DDL),
        ("/*!40000 ALTER TABLE t DISABLE KEYS */", Meaning.DDL),
        ("/*!50003 INSERT INTO t SELECT 1", Meaning.CHANGE),
        ("CREATE TABLE `a'b` LIKE t # 'SELECT", Meaning.DDL),
        ("/* never closed", Meaning.OTHER),
    ],
)
def test_what_is_in_strings_and_comments_does_not_count(text: str, expected: Meaning) -> None:
    """But for comments that run, and in doubt: then it is a change."""
    assert meaning(text) is expected

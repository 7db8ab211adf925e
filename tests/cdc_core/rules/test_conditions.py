"""Conditions over rows: what they say of each row, and what they cannot say."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cdc_core.errors import ConfigError, SchemaError
from cdc_core.rules.conditions import condition

ROWS: dict[str, Any] = {
    "a": pa.array([1, 2, None, -3], pa.int32()),
    "u": pa.array([2**64 - 1, 0, None, 5], pa.uint64()),
    "d": pa.array([Decimal("1.50"), None, Decimal("2.00"), Decimal("-1.00")], pa.decimal128(5, 2)),
    "s": pa.array(["éx", "A", "", None]),
    "b": pa.array([b"x"] * 4),
}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a = 1", [0]),
        ("A <> 1", [1, 3]),
        ("NOT a != 1", [0]),
        ("NOT a = 1", [1, 3]),
        ("a < 2 OR a >= 2", [0, 1, 3]),
        ("a IN (1, 2.0)", [0, 1]),
        ("a NOT IN (1)", [1, 3]),
        ("a BETWEEN -3 AND 1", [0, 3]),
        ("a NOT BETWEEN -3 AND 1", [1]),
        ("u > 9223372036854775807", [0]),
        ("u = 18446744073709551615", [0]),
        ("u >= a", [0, 3]),
        ("d = 1.5", [0]),
        ("d + a * 2 = 3.5", [0]),
        ("-a - 1 = 2", [3]),
        ("d > a", [0, 3]),
        ("s LIKE '_x'", [0]),
        ("s NOT LIKE 'A%'", [0, 2]),
        ("s LIKE 'a'", []),
        (r"CONCAT(s, '%') LIKE 'A\\%'", [1]),
        ("s IS NULL", [3]),
        ("s IS NOT NULL", [0, 1, 2]),
        ("COALESCE(a, d, 7) = 2", [1, 2]),
        ("IFNULL(s, 'x') = \"x\"", [3]),
        ("CONCAT(s, 'y') = 'Ay'", [1]),
        ("SUBSTR(s, 1, 1) = 'é' OR SUBSTRING(s FROM 2) = ''", [0, 1, 2]),
        ("LOWER(s) = 'a' OR UPPER(s) = 'ÉX'", [0, 1]),
        ("a = TRUE", [0]),
        ("a % 2 = 1", [0]),
        ("IF(a = 1, 1, d) = 1", [0]),
        ("CASE WHEN a > 0 THEN s ELSE 'x' END = 'x'", [2, 3]),
        ("(a = 1 OR s = 'A') AND NOT (d IS NULL)", [0]),
        ("a = 1 OR 1 = 1", [0, 1, 2, 3]),
        ("(a IS NULL OR s IS NULL) AND `a` IS NOT NULL", [3]),
    ],
)
def test_rows_that_meet_a_condition(text: str, rows: list[int]) -> None:
    """NULL is neither true nor false; texts are compared by their characters, numbers by their values."""
    found = condition(text).holds(ROWS)

    assert [row for row, holds in enumerate(found.to_pylist()) if holds] == rows
    assert found.null_count == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a", "'a' is not a condition"),
        ("a + 1", r"'a \+ 1' is not a condition"),
        ("NOT a", "'a' is not a condition"),
        ("a || s", "'a' is not a condition"),
        ("a = (d = 1)", "'d = 1' is not a value"),
        ("a = d = 1", "'a = d' is not a value"),
        ("a <=> 1", "'a <=> 1' is not a condition"),
        ("a XOR d", "is not a condition"),
        ("a IS TRUE", "'a IS TRUE' is not a condition"),
        ("a = NULL", "'NULL' is not a value"),
        ("t.a = 1", "'t.a' is not a value"),
        ("* = 1", "is not a value"),
        ("a IN (SELECT 1)", "is not a condition"),
        ("EXISTS (SELECT 1)", "is not a condition"),
        ("a = 1 UNION SELECT 1", "not a condition"),
        ("DROP TABLE t", "'DROP TABLE t' is not a condition"),
        ("a = 1; a = 2", "is not a condition"),
        ("a / 2 = 1", "is not a value"),
        ("a = 1e3", "'1e3' is not a value"),
        ("a = 0x10", "is not a value"),
        ("a = @x", "is not a value"),
        ("a = ?", "is not a value"),
        ("NOW() = a", "'NOW.*' is not a value"),
        ("COUNT(a) = 1", "is not a value"),
        ("IF(a, 1, 2) = 1", "is not a condition"),
        ("s REGEXP 'x'", "is not a condition"),
        ("s LIKE a", "is not a condition"),
        ("s LIKE 'x' ESCAPE '|'", "is not a condition"),
        ("s = 'x' 'y'", "is not a value"),
        ("s = _utf8'x'", "is not a value"),
        ("s COLLATE utf8mb4_bin = 'x'", "is not a value"),
        ("SUBSTR(s, 0) = 'x'", "is not a value"),
        ("SUBSTR(s, -1) = 'x'", "is not a value"),
        ("SUBSTR(s, a) = 'x'", "is not a value"),
        ("1 = 1", "names no column"),
        ("a = 1 -- AND d = 2", "has a comment"),
        ("a = 1 --\nAND d = 2", "has a comment"),
        ("a = 1 # AND d = 2", "has a comment"),
        ("a = 1 /*! AND d = 2 */", "has a comment"),
        ("/* of ours */ a = 1", "has a comment"),
        ("+".join("a" * 1000) + " = 1", "too many parts"),
        (" OR ".join(["a=1"] * 560), "too many parts"),
        ("a = ", "line 1, column 3"),
        ("a = 'x", "Error tokenizing"),
        ("", "not a condition"),
        ("(" * 3000 + "a = 1" + ")" * 900, "not a condition"),
        (" OR ".join(["a = 1"] * 1000), "more than 4000 characters"),
    ],
)
def test_what_is_not_in_the_language_is_refused(text: str, why: str) -> None:
    """When the rules are read, with the part or the place."""
    with pytest.raises(ConfigError, match=why):
        condition(text)


@pytest.mark.parametrize("text", ["s = 1", "a = 's'", "b = 'x'", "s + 1 = 2", "LOWER(a) = 'x'", "COALESCE(a, s) = 1"])
def test_texts_and_numbers_are_not_compared(text: str) -> None:
    """Nor are bytes compared with either; nobody guesses what was meant."""
    with pytest.raises(SchemaError, match="cannot be evaluated"):
        condition(text).holds(ROWS)
    with pytest.raises(SchemaError, match="cannot be evaluated"):
        condition(text).holds({name: values.slice(0, 0) for name, values in ROWS.items()})


def test_a_long_condition_is_evaluated() -> None:
    """As long as there can be one."""
    text = " OR ".join(["a = 1"] * 400)

    assert condition(text).holds(ROWS).to_pylist() == [True, False, False, False]
    assert condition("+".join("a" * 50) + " = 50").holds(ROWS).to_pylist() == [True, False, False, False]
    assert condition("s = '-- #1 /* 2 */'").holds(ROWS).to_pylist() == [False] * 4

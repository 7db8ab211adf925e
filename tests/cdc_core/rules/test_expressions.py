"""Expressions over rows: their values and types, which rows fail, and what they cannot say."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cdc_core.errors import ConfigError, SchemaError
from cdc_core.rules.expressions import FailedRow, expression

ROWS: dict[str, pa.Array] = {
    "a": pa.array([7, -7, None, 2], pa.int32()),
    "b": pa.array([2, 2, 5, 0], pa.int64()),
    "u": pa.array([Decimal(2**64 - 1), Decimal(0), None, Decimal(5)], pa.decimal128(20, 0)),
    "d": pa.array([Decimal("1.25"), Decimal("-1.25"), None, Decimal("10.00")], pa.decimal128(5, 2)),
    "s": pa.array(["éxA", " b ", None, "12"]),
    "n": pa.array(["5", "-5", None, "007"]),
    "day": pa.array([date(2024, 2, 29), date(1, 1, 1), None, date(9999, 12, 31)]),
    "at": pa.array(
        [datetime(2024, 2, 29, 23, 59, 58, 500000), datetime(1969, 12, 31, 1, 2, 3, 1), None, datetime(2024, 3, 1)],
        pa.timestamp("us"),
    ),
    "ts": pa.array([datetime(2024, 2, 29, 23, 59, 58)] * 2 + [None] * 2, pa.timestamp("us", "UTC")),
    "doc": pa.array(['{"a": {"b c": "x\\"y"}, "n": 1.50, "l": [true, {"k": null, "é": []}]}', "[1, 2]", None, '"t"']),
}


_REASONS = (
    "a value does not fit its type", "a text is not a whole number", "a text is not a number", "a text is not JSON",
    "a time rounds to one beyond the year 9999",
)  # fmt: skip


def computed(text: str, rows: dict[str, pa.Array] = ROWS) -> tuple[Any, list[Any]]:
    """The type and the values of an expression."""
    found = expression(text)
    kind = found.kind({name: rows[name].type for name in found.columns})
    values = found.values(rows, 4, kind)
    assert values.type == kind
    return kind, values.to_pylist()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a + b", [9, -5, None, 2]),
        ("A - b * 2", [3, -11, None, 2]),
        ("-a", [-7, 7, None, -2]),
        ("a DIV b", [3, -3, None, None]),
        ("a % b", [1, -1, None, None]),
        ("MOD(a, -2)", [1, -1, None, 0]),
        ("ABS(a)", [7, 7, None, 2]),
        ("FLOOR(d)", [Decimal(1), Decimal(-2), None, Decimal(10)]),
        ("CEIL(d)", [Decimal(2), Decimal(-1), None, Decimal(10)]),
        ("ROUND(d)", [Decimal(1), Decimal(-1), None, Decimal(10)]),
        ("ROUND(d, 1)", [Decimal("1.3"), Decimal("-1.3"), None, Decimal("10.0")]),
        ("ROUND(d, 5)", [Decimal("1.25"), Decimal("-1.25"), None, Decimal("10.00")]),
        ("d * a", [Decimal("8.75"), Decimal("8.75"), None, Decimal("20.00")]),
        ("u", [Decimal(2**64 - 1), Decimal(0), None, Decimal(5)]),
        ("CONCAT(s, '-', n)", ["éxA-5", " b --5", None, "12-007"]),
        ("CONCAT_WS('-', s, NULLIF(n, '5'))", ["éxA", " b --5", "", "12-007"]),
        ("SUBSTR(s, 2, 1)", ["x", "b", None, "2"]),
        ("LEFT(s, 2)", ["éx", " b", None, "12"]),
        ("RIGHT(s, 2)", ["xA", "b ", None, "12"]),
        ("RIGHT(s, 0)", ["", "", None, ""]),
        ("TRIM(s)", ["éxA", "b", None, "12"]),
        ("LTRIM(s)", ["éxA", "b ", None, "12"]),
        ("RTRIM(s)", ["éxA", " b", None, "12"]),
        ("REPLACE(s, 'x', 'yy')", ["éyyA", " b ", None, "12"]),
        ("UPPER(REPLACE(s, '', 'y'))", ["ÉXA", " B ", None, "12"]),
        ("CHAR_LENGTH(s)", [3, 3, None, 2]),
        ("COALESCE(a, b)", [7, -7, 5, 2]),
        ("IFNULL(d, 0)", [Decimal("1.25"), Decimal("-1.25"), Decimal(0), Decimal(10)]),
        ("NULLIF(a, 2)", [7, -7, None, None]),
        ("IF(a > 0, 'plus', 'minus')", ["plus", "minus", "minus", "plus"]),
        ("CASE WHEN a > 5 THEN 'large' WHEN a > 0 THEN 'small' END", ["large", None, None, "small"]),
        ("CASE a WHEN 7 THEN 1 WHEN 2 THEN d ELSE NULL END", [Decimal(1), None, None, Decimal(10)]),
        ("CASE WHEN b = 0 THEN 0 ELSE a DIV b END", [3, -3, None, 0]),
        ("a > 0", [True, False, None, True]),
        ("a > 0 OR b = 5", [True, False, True, True]),
        ("s IS NULL", [False, False, True, False]),
        (r"REPLACE(s, 'x', '\\') LIKE '%\\\\A'", [True, False, None, False]),
        (r"REPLACE(s, 'xA', '\\') LIKE 'é\\'", [True, False, None, False]),
        (r"REPLACE(s, 'xA', '\\') LIKE '_\\\\'", [True, False, None, False]),
        ("CAST(a AS CHAR)", ["7", "-7", None, "2"]),
        ("CAST(d AS CHAR)", ["1.25", "-1.25", None, "10.00"]),
        ("CAST(d * 0.000001 AS CHAR)", ["0.00000125", "-0.00000125", None, "0.00001000"]),
        ("CAST(day AS CHAR(7))", ["2024-02", "0001-01", None, "9999-12"]),
        ("CAST(n AS SIGNED)", [5, -5, None, 7]),
        ("CAST(d AS SIGNED)", [1, -1, None, 10]),
        ("CAST(n AS DECIMAL(5,1))", [Decimal("5.0"), Decimal("-5.0"), None, Decimal("7.0")]),
        ("CAST(a AS DECIMAL(3,0))", [Decimal(7), Decimal(-7), None, Decimal(2)]),
        ("CAST('2024-01-31' AS DATE)", [date(2024, 1, 31)] * 4),
        ("CAST(day AS DATETIME)", [datetime(2024, 2, 29), datetime(1, 1, 1), None, datetime(9999, 12, 31)]),
        (
            "CAST(at AS DATETIME)",
            [datetime(2024, 2, 29, 23, 59, 59), datetime(1969, 12, 31, 1, 2, 3), None, datetime(2024, 3, 1)],
        ),
        ("CAST('1960-12-31 23:59:59.5' AS DATETIME)", [datetime(1961, 1, 1)] * 4),
        ("CAST('9999-12-31 23:59:59.4999' AS DATETIME(0))", [datetime(9999, 12, 31, 23, 59, 59)] * 4),
        ("CAST('1960-01-01 00:00:00.123456' AS DATETIME(3))", [datetime(1960, 1, 1, 0, 0, 0, 123000)] * 4),
        ("CAST('1960-01-01 00:00:00.123456' AS DATETIME(6))", [datetime(1960, 1, 1, 0, 0, 0, 123456)] * 4),
        ("DATE(at)", [date(2024, 2, 29), date(1969, 12, 31), None, date(2024, 3, 1)]),
        ("DATE(ts)", [date(2024, 2, 29)] * 2 + [None] * 2),
        ("YEAR(day)", [2024, 1, None, 9999]),
        ("QUARTER(at)", [1, 4, None, 1]),
        ("MONTH(at) * 100 + DAY(at)", [229, 1231, None, 301]),
        ("HOUR(at) * 3600 + MINUTE(at) * 60 + SECOND(ts)", [86398, 3778, None, None]),
        ("DATEDIFF(at, day)", [0, 719161, None, -2913113]),
        ("DATE_FORMAT(at, '%Y-%m')", ["2024-02", "1969-12", None, "2024-03"]),
        ("DATE_FORMAT(day, '%d.%m.%Y')", ["29.02.2024", "01.01.0001", None, "31.12.9999"]),
        ("DATE_FORMAT(at, '%H:%i:%s')", ["23:59:58", "01:02:03", None, "00:00:00"]),
        ("day = DATE '2024-02-29'", [True, False, None, False]),
        ("at >= day", [True, True, None, False]),
        ("doc->>'$.a.\"b c\"'", ['x"y', None, None, None]),
        ("doc->>'$.n'", ["1.50", None, None, None]),
        ("JSON_UNQUOTE(JSON_EXTRACT(doc, '$.l[1]'))", ['{"k": null, "é": []}', None, None, None]),
        ("doc->>'$[0]'", [ROWS["doc"][0].as_py(), "1", None, "t"]),
        ("CAST(doc->>'$.n' AS DECIMAL(4,1))", [Decimal("1.5"), None, None, None]),
        ("'de'", ["de"] * 4),
        ("1", [1] * 4),
    ],
)
def test_values_of_an_expression(text: str, values: list[Any]) -> None:
    """NULL where a value is NULL, and for a division by 0."""
    assert computed(text)[1] == values


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a + b", pa.int64()),
        ("a", pa.int64()),
        ("u", pa.decimal128(20, 0)),
        ("d * b", pa.decimal128(26, 2)),
        ("d * d * d * d * u * u", pa.decimal128(38, 8)),
        ("CAST(a AS DECIMAL(20,0)) + 1", pa.decimal128(21, 0)),
        ("COALESCE(a, d)", pa.decimal128(22, 2)),
        ("CASE WHEN a = 1 THEN day ELSE at END", pa.timestamp("us")),
        ("ts", pa.timestamp("us")),
        ("NOT a = 1", pa.bool_()),
    ],
)
def test_types_of_an_expression(text: str, kind: Any) -> None:
    """Whole numbers are BIGINT, unless a DECIMAL has a part in them."""
    rows = ROWS | {"u": pa.array([None] * 4, pa.decimal128(20, 0))}
    assert computed(text, rows)[0] == kind


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("b * 9223372036854775807", 0),
        ("CAST(u AS SIGNED)", 0),
        ("CAST(s AS SIGNED)", 0),
        ("CAST(n AS SIGNED) + IF(a = 2, CAST(s AS SIGNED), 0) + IF(a < 0, CAST(s AS SIGNED), 0)", 1),
        ("CAST(CASE WHEN a = 2 THEN '2023-02-29' ELSE '2024-02-29' END AS DATE)", 3),
        ("CAST(d * 100 AS DECIMAL(3,0))", 3),
        ("CAST(s AS DECIMAL(9,2))", 0),
        ("CAST(IF(a = 2, '9999-12-31 23:59:59.5', '2024-01-01 00:00:00') AS DATETIME)", 3),
        ("IF(b = 0, doc, '{')->>'$.a'", 0),
    ],
)
def test_a_row_may_have_no_value(text: str, row: int) -> None:
    """The first one is named. MySQL would warn, and take another value."""
    found = expression(text)
    kind = found.kind({name: ROWS[name].type for name in found.columns})

    with pytest.raises(FailedRow) as caught:
        found.values(ROWS, 4, kind)

    assert caught.value.row == row
    assert str(caught.value) in _REASONS
    assert caught.value.__context__ is None  # Arrow's own texts have values


def test_a_branch_is_evaluated_for_its_rows_alone() -> None:
    """What fails on other rows does no harm."""
    assert computed("IF(a = 2, CAST(s AS SIGNED), 0)")[1] == [0, 0, 0, 12]
    assert computed("COALESCE(a, CAST(s AS SIGNED))")[1] == [7, -7, None, 2]
    assert computed("CASE WHEN a IS NULL THEN 0 WHEN CAST(n AS SIGNED) = 5 THEN 1 END")[1] == [1, None, 0, None]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a / 2", "'a / 2' is not a value"),
        ("NULL", "'NULL' is not a value"),
        ("a + NULL", "'NULL' is not a value"),
        ("NOW()", "is not a value"),
        ("RAND()", "is not a value"),
        ("LENGTH(s)", "is not a value"),
        ("TRIM(BOTH 'x' FROM s)", "is not a value"),
        ("DATE_FORMAT(at, '%W')", "is not a value"),
        ("DATE_FORMAT(at, s)", "is not a value"),
        ("at + INTERVAL 1 DAY", "INTERVAL .* is not a value"),
        ("CAST(a AS UNSIGNED)", "is not a value"),
        ("CAST(a AS DECIMAL(65,2))", "is not a value"),
        ("CAST(a AS DECIMAL)", "is not a value"),
        ("CAST(at AS DATETIME(7))", "is not a value"),
        ("ROUND(d, a)", "is not a value"),
        ("ROUND(d, -1)", "is not a value"),
        ("IF(a = 1, 2)", "is not a value"),
        ("IF(a, 2, 3)", "'a' is not a condition"),
        ("(a = 1) + 1", "'a = 1' is not a value"),
        ("CASE WHEN a THEN 2 END", "'a' is not a condition"),
        ("doc->'$.a'", "is not a value"),
        ("doc->>'$.*'", "is not a value"),
        ("doc->>'$**.a'", "is not a value"),
        ("(SELECT 1)", "is not a value"),
        ("SUM(a)", "is not a value"),
        ("a AS b", "is not a value"),
        ("a; b", "not an expression"),
        ("REPLACE INTO t VALUES (1)", "not an expression"),
        ("SUBSTRING_INDEX(s, '@', 1)", "is not a value"),
        ("a -- + b", "has a comment"),
        ("REPLACE(s, 'x', 'y') # 2", "has a comment"),
        ("a /*! + b */", "has a comment"),
        (" + ".join("a" * 500), "too many parts"),
        (" OR ".join(["a=1"] * 500), "too many parts"),
        ("IF(a = 1, " * 90 + "a" + ", 2)" * 90, "not an expression"),
        ("", "not an expression"),
        ("a +", "line 1"),
    ],
)
def test_what_is_not_in_the_language_is_refused(text: str, why: str) -> None:
    """When the rules are read, with the part or the place."""
    with pytest.raises(ConfigError, match=why):
        expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "s + 1", "CONCAT(s, a)", "COALESCE(a, s)", "YEAR(s)", "a = day", "LOWER(a)", "d % 2", "CAST(at AS CHAR)",
        "IF(a = 1, NULL, NULL)", "REPLACE(s, n, 'x')", "CONCAT_WS(s, n)", " * ".join(["d"] * 16),
    ],
)  # fmt: skip
def test_types_that_do_not_fit_are_refused(text: str) -> None:
    """Before any row; nobody guesses what was meant."""
    found = expression(text)

    with pytest.raises(SchemaError, match="the expression"):
        found.kind({name: ROWS[name].type for name in found.columns})

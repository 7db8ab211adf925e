"""Random expressions in the language of rules, over the columns of `CREATE`: of those that MySQL itself evaluates, with
the same value, on every row. All chance comes from the `Random` that is given."""

from __future__ import annotations

from random import Random

CREATE = (
    "CREATE TABLE {} (id INT PRIMARY KEY, a INT, b SMALLINT, d DECIMAL(8,2), e DECIMAL(6,3), "
    "s VARCHAR(20) COLLATE utf8mb4_0900_bin, t TEXT COLLATE utf8mb4_0900_bin, k ENUM('x', 'é', '') "
    "COLLATE utf8mb4_0900_bin, day DATE, at DATETIME(6), ts TIMESTAMP NULL, doc JSON)"
)
_TEXTS = ("", "a", "A", " é ", "日本", "12", "a%_b", "\\\\", "x''y", "Städte")
_DAYS = ("2024-02-29", "1970-01-01", "1000-01-01", "9999-12-31", "2023-12-31")
_DOCS = (
    '{"a": {"b": [1, 2.50, "x"]}, "é": null}', "[true, {}]", '"text"', '{"a": "q\\\\"u"}', "1e20",
    '{"a": 18446744073709551615}',
)  # fmt: skip
_PATHS = ("$", "$.a", "$.a.b", "$.a.b[1]", '$."é"', "$[0]", "$[1]", "$.a[0].b[2]")
_PATTERNS = ("%Y-%m", "%d.%m.%Y", "%H:%i:%s", "Q%m")


def row(rng: Random, number: int) -> str:
    """A row of the table, as VALUES has it."""

    def maybe(text: str) -> str:
        return "NULL" if rng.random() < 0.15 else text

    day = rng.choice(_DAYS)
    values = [
        str(number), maybe(str(rng.choice((0, 1, -1, 7, -100, rng.randint(-(10**6), 10**6))))),
        maybe(str(rng.randint(-9, 9))), maybe(f"{rng.randint(-(10**8) + 1, 10**8 - 1) / 100:.2f}"),
        maybe(rng.choice(("0.000", "1.250", "-1.250", "0.005", "-999.999"))), maybe(f"'{rng.choice(_TEXTS)}'"),
        maybe(f"'{rng.choice(_TEXTS)}'"), maybe(str(rng.randint(0, 3))), maybe(f"'{rng.choice(_DAYS)}'"),
        maybe(f"'{day} {rng.randint(0, 23):02d}:59:{rng.randint(0, 59):02d}.{rng.randint(0, 999999):06d}'"),
        maybe("'2024-03-31 02:30:00'"), maybe(f"'{rng.choice(_DOCS)}'"),
    ]  # fmt: skip
    return f"({', '.join(values)})"


def expression_for(rng: Random, depth: int = 3) -> str:
    """A number, a text, a date, a time or a condition."""
    return rng.choice((_number, _text, _day, _moment, _condition))(rng, depth)


def _number(rng: Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(("a", "b", "d", "e", "0", "1", "-2.5", "100"))
    one = lambda: _number(rng, depth - 1)  # noqa: E731
    match rng.randrange(10):
        case 0:
            return f"({one()} {rng.choice('+-')} {one()})"
        case 1:
            return f"({_number(rng, 0)} * {_number(rng, 0)})"
        case 2:
            return f"{rng.choice(('ABS', 'FLOOR', 'CEIL', '-'))}({one()})"
        case 3:
            return f"ROUND({one()}, {rng.randint(0, 2)})"
        case 4:
            return f"({_whole(rng)} {rng.choice(('DIV', '%'))} {_whole(rng)})"
        case 5:
            return f"CHAR_LENGTH({_text(rng, depth - 1)})"
        case 6:
            part = rng.choice(("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"))
            return f"{part}({_moment(rng, depth - 1)})"
        case 7:
            return f"DATEDIFF({_moment(rng, depth - 1)}, {_day(rng, depth - 1)})"
        case 8:
            return f"CAST({one()} AS {rng.choice(('SIGNED', 'DECIMAL(30,3)'))})"
        case _:
            return _choice(rng, one(), one(), depth)


def _whole(rng: Random) -> str:
    return rng.choice(("a", "b", "0", "7", "-3", "(a + b)"))


def _text(rng: Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(("s", "t", "k", *(f"'{text}'" for text in _TEXTS)))
    one = lambda: _text(rng, depth - 1)  # noqa: E731
    match rng.randrange(9):
        case 0:
            return f"CONCAT({one()}, {one()})"
        case 1:
            return f"CONCAT_WS('-', {one()}, {one()}, {one()})"
        case 2:
            return f"SUBSTR({one()}, {rng.randint(1, 3)}{rng.choice(('', ', 2', ', 0'))})"
        case 3:
            return f"{rng.choice(('LEFT', 'RIGHT'))}({one()}, {rng.randint(0, 3)})"
        case 4:
            return f"{rng.choice(('TRIM', 'LTRIM', 'RTRIM', 'LOWER', 'UPPER'))}({rng.choice(('s', 't'))})"
        case 5:
            return f"REPLACE({one()}, '{rng.choice(('a', 'é', '', '%'))}', '{rng.choice(('', 'zz'))}')"
        case 6:
            return f"DATE_FORMAT({_moment(rng, depth - 1)}, '{rng.choice(_PATTERNS)}')"
        case 7:
            return rng.choice((f"doc->>'{rng.choice(_PATHS)}'", f"CAST({rng.choice(('a', 'd', 'e', 'day'))} AS CHAR)"))
        case _:
            return _choice(rng, one(), one(), depth)


def _day(rng: Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(("day", "DATE '2024-02-29'"))
    return rng.choice((f"DATE({_moment(rng, depth - 1)})", f"CAST({_moment(rng, depth - 1)} AS DATE)"))


def _moment(rng: Random, depth: int) -> str:
    if depth == 0:
        digits = rng.choice(("", "(0)", "(3)", "(6)"))
        text = f"'2024-02-29 08:59:59.{rng.choice(('0', '5', '4999', '9996'))}'"
        return rng.choice(("at", "ts", "day", f"CAST({text} AS DATETIME{digits})"))
    return _choice(rng, _moment(rng, depth - 1), _moment(rng, depth - 1), depth, kinds=4)


def _choice(rng: Random, one: str, other: str, depth: int, kinds: int = 5) -> str:
    """One of the two. The last kind is not for times, of which the server makes texts there."""
    asked = _condition(rng, depth - 1)
    match rng.randrange(kinds):
        case 0:
            return f"IF({asked}, {one}, {other})"
        case 1:
            return f"CASE WHEN {asked} THEN {one} ELSE {other} END"
        case 2:
            return f"CASE b WHEN 1 THEN {one} WHEN a THEN {other} END"
        case 3:
            return f"COALESCE({one}, {other})"
        case _:
            return f"NULLIF({one}, {other})"


def _condition(rng: Random, depth: int) -> str:
    kind = rng.choice((_number, _text, _day, _moment))
    if depth <= 0:
        one, other = kind(rng, 0), kind(rng, 0)
        return rng.choice((f"{one} {rng.choice(('=', '<>', '<', '>='))} {other}", f"{one} IS NULL"))
    one, other, third = (kind(rng, depth - 1) for _ in range(3))
    match rng.randrange(6):
        case 0:
            return f"({_condition(rng, depth - 1)} {rng.choice(('AND', 'OR'))} {_condition(rng, depth - 1)})"
        case 1:
            return f"NOT ({_condition(rng, depth - 1)})"
        case 2:
            return f"{one} IN ({other}, {third})"
        case 3:
            return f"{one} BETWEEN {other} AND {third}"
        case 4:
            return f"{_text(rng, depth - 1)} LIKE '{rng.choice(('%', 'a%', '_', '%é%', ''))}'"
        case _:
            return f"{one} {rng.choice(('=', '<>', '<', '>='))} {other}"

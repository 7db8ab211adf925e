"""What a text of the language of rules says of rows: the truth of a condition, the value of an expression.

A branch of CASE, IF and COALESCE is evaluated for the rows alone that need it, so that it may fail on the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from cdc_core.rules.functions import FUNCTIONS, Values, alike, text
from cdc_core.rules.language import COMPARISONS, is_condition, plain, values_in


@dataclass(frozen=True, slots=True)
class RowValues:
    """Rows, by the names of their columns in lower case."""

    columns: Mapping[str, pa.Array]
    count: int

    def chosen(self, which: pa.BooleanArray) -> RowValues:
        columns = {name: values.filter(which) for name, values in self.columns.items()}
        return RowValues(columns, pc.sum(which).as_py() or 0)

    def all(self, values: Values) -> pa.Array:
        """One value for each row."""
        if not isinstance(values, pa.Scalar):
            return values
        return pa.repeat(values, self.count) if values.is_valid else pa.nulls(self.count, values.type)


def truth(node: exp.Expr, rows: RowValues) -> Values:
    """The truth of each row: true, false or NULL."""
    node = plain(node)
    match node:
        case exp.And():
            return pc.and_kleene(truth(node.this, rows), truth(node.expression, rows))
        case exp.Or():
            return pc.or_kleene(truth(node.this, rows), truth(node.expression, rows))
        case exp.Not():
            return pc.invert(truth(node.this, rows))
        case exp.Is():
            return pc.is_null(value(node.this, rows))
        case exp.In():
            there = value(node.this, rows)
            return reduce(pc.or_kleene, (_compared("equal", there, value(one, rows)) for one in node.expressions))
        case exp.Between():
            there, low, high = (value(part, rows) for part in values_in(node))
            return pc.and_kleene(_compared("greater_equal", there, low), _compared("less_equal", there, high))
        case exp.Like():
            matches = _like(text(value(node.this, rows)), node.expression.name)
            return pc.invert(matches) if node.args.get("negate") else matches
        case _:
            return _compared(COMPARISONS[type(node)], value(node.this, rows), value(node.expression, rows))


def value(node: exp.Expr, rows: RowValues) -> Values:
    """The value of each row; one for all of them where it has no column."""
    node = plain(node)
    match node:
        case exp.Column():
            return rows.columns[node.name.lower()]
        case exp.Literal():
            return pa.scalar(node.name) if node.is_string else _constant(node.name)
        case exp.Boolean():
            return pa.scalar(int(node.this), pa.int64())
        case exp.Null():
            return pa.scalar(None, pa.null())
        case exp.Coalesce():
            return _first(values_in(node), rows)
        case exp.If():
            return _case([(node.this, node.args["true"])], node.args["false"], rows)
        case exp.Case():
            return _case(list(_branches(node)), node.args.get("default") or exp.Null(), rows)
        case exp.Nullif():
            there, other = (value(part, rows) for part in values_in(node))
            same = pc.fill_null(_compared("equal", there, other), False)
            return pc.if_else(same, pa.scalar(None, there.type), there)
        case _:
            return FUNCTIONS[type(node)](node, [value(part, rows) for part in values_in(node)])


def _like(values: Values, pattern: str) -> Values:
    """Whether texts are like a pattern. A backslash at its end stands for itself, as in MySQL."""
    if "\\" not in pattern:
        return pc.match_like(values, pattern)
    parts = re.findall(r"\\?.", pattern, re.DOTALL)  # Arrow does not know all escapes
    regex = "".join({"%": ".*", "_": "."}.get(part, re.escape(part[-1])) for part in parts)
    return pc.match_substring_regex(values, rf"(?s)\A{regex}\z")


def _constant(digits: str) -> pa.Scalar:
    number = Decimal(digits)
    if "." not in digits and number < 1 << 63:
        return pa.scalar(int(number), pa.int64())
    return pa.scalar(number)


def _compared(how: str, left: Values, right: Values) -> Values:
    return pc.call_function(how, alike([left, right]))


def _branches(node: exp.Case) -> Sequence[tuple[exp.Expr, exp.Expr]]:
    """The conditions and values of CASE; those of CASE x WHEN 1 are x = 1."""
    whens = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
    return whens if node.this is None else [(exp.EQ(this=node.this, expression=when), then) for when, then in whens]


def _case(branches: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr, rows: RowValues) -> pa.Array:
    """For each row the value of the first branch whose condition is true."""
    open_rows = pa.repeat(True, rows.count)
    chosen, values = [], []
    for condition, then in branches:
        holds = pc.fill_null(rows.all(_where(condition, rows, open_rows)), False)
        mine = pc.and_(open_rows, holds)
        chosen.append(mine)
        values.append(_where(then, rows, mine))
        open_rows = pc.and_not(open_rows, mine)
    *values, found = alike([*values, _where(default, rows, open_rows)])
    for mine, then in zip(reversed(chosen), reversed(values), strict=True):
        found = pc.if_else(mine, then, found)
    return rows.all(found)


def _first(parts: Sequence[exp.Expr], rows: RowValues) -> Values:
    """For each row the first value that is not NULL."""
    values, missing = [], pa.repeat(True, rows.count)
    for part in parts:
        values.append(_where(part, rows, missing))
        missing = pc.and_(missing, rows.all(pc.is_null(values[-1])))
    return pc.coalesce(*alike(values))


def _where(node: exp.Expr, rows: RowValues, which: pa.BooleanArray) -> Values:
    """Values, or truth, of the rows of which it is asked; NULL for the others."""
    node = plain(node)
    if isinstance(node, exp.Column | exp.Literal | exp.Boolean | exp.Null):
        return value(node, rows)
    evaluate = truth if is_condition(node) else value
    asked = np.asarray(which)
    if asked.all():
        return evaluate(node, rows)
    part = rows.chosen(which)
    found = part.all(evaluate(node, part))
    places = pa.array(np.cumsum(asked) - 1, pa.int64(), mask=~asked)
    return found.take(places)


def row_that_fails(evaluate: Callable[[RowValues], object], rows: RowValues) -> int:
    """The number of the first row that `evaluate` fails on; it fails on `rows`."""
    low, high = 0, rows.count  # it does not fail on the first `low` rows, but on the first `high`
    while high - low > 1:
        middle = (low + high) // 2
        try:
            evaluate(RowValues({name: values.slice(0, middle) for name, values in rows.columns.items()}, middle))
            low = middle
        except pa.ArrowException:
            high = middle
    return max(high - 1, 0)

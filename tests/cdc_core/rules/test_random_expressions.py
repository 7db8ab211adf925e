"""Expressions drawn at random are in the language, and have a type and a value for rows of every kind."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from random import Random

import pyarrow as pa

from cdc_core.rules.expressions import expression
from tests.support.random_expressions import expression_for

_DECIMAL = Decimal("-1.25")
ROWS: dict[str, pa.Array] = {
    "a": pa.array([7, 0, None], pa.int32()),
    "b": pa.array([-7, 1, None], pa.int16()),
    "d": pa.array([_DECIMAL, Decimal("999999.99"), None], pa.decimal128(8, 2)),
    "e": pa.array([_DECIMAL, Decimal("0.005"), None], pa.decimal128(6, 3)),
    "s": pa.array([" é ", "", None]),
    "t": pa.array(["a%_b", "Straße", None]),
    "k": pa.array(["x", "", None]),
    "day": pa.array([date(2024, 2, 29), date(9999, 12, 31), None]),
    "at": pa.array([datetime(1000, 1, 1, 1, 2, 3, 4), datetime(2024, 2, 29), None], pa.timestamp("us")),
    "ts": pa.array([datetime(2024, 3, 31, 2, 30), datetime(1970, 1, 1), None], pa.timestamp("us", "UTC")),
    "doc": pa.array(['{"a": {"b": [1, 2.50]}}', '"text"', None]),
}


def test_random_expressions_have_values_of_their_types() -> None:
    """The type is that of no rows, so that it does not depend on them."""
    kinds = set()
    for seed in range(200):
        found = expression(expression_for(Random(seed)))
        kind = found.kind({name: ROWS[name].type for name in found.columns})
        values = found.values(ROWS, 3, kind)
        assert (values.type, len(values)) == (kind, 3), found.text
        alone = [found.values({name: one.slice(row, 1) for name, one in ROWS.items()}, 1, kind) for row in range(3)]
        assert pa.chunked_array(alone).to_pylist() == values.to_pylist(), found.text
        kinds.add(str(kind).partition("(")[0])
    assert kinds == {"int64", "decimal128", "string", "date32[day]", "timestamp[us]", "bool"}

"""Keys that are compared although a statement changed their type in between."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.changes.keys import is_among


def keys(kind: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"id": pa.array(values, kind)})


@pytest.mark.parametrize(
    ("there", "others", "among"),
    [
        (keys(pa.int64(), 7, 8), keys(pa.string(), "7"), [True, False]),
        (keys(pa.int64(), 7, 2**63 - 1), keys(pa.decimal128(31, 30), Decimal(7)), [True, False]),
        (keys(pa.int64(), 2**63 - 1), keys(pa.decimal128(20, 0), Decimal(2**63 - 1)), [True]),
        (keys(pa.int64(), 2**62 + 1), keys(pa.float64(), 7.0), [False]),
    ],
    ids=["text", "decimal", "whole", "float"],
)
def test_keys_of_other_types_are_compared(there: pa.Table, others: pa.Table, among: list[bool]) -> None:
    """Also those that have values which the other type has not: they would end each batch with an error."""
    assert is_among(there, others).tolist() == among

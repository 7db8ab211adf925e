"""Rows of random columns, and the bytes of the result that has them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.support import result_packets as written

TOP = 10**38 - 1
TIME = 838 * 3_600_000_000 + 59 * 61_000_000
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tiny": st.integers(-128, 127),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "big": st.integers(-(1 << 63), (1 << 63) - 1),
    "unsigned": st.integers(0, (1 << 64) - 1),
    "double": st.floats(allow_nan=False),
    "decimal": st.integers(-TOP, TOP).map(lambda value: Decimal(f"{value}e-9")),
    "text": st.text(max_size=300),
    "bytes": st.binary(max_size=400),
    "date": st.dates(),
    "datetime": st.datetimes(),
    "time": st.integers(-TIME, TIME),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=12))
    return kinds, draw(st.lists(st.tuples(*(st.none() | VALUES[kind] for kind in kinds)).map(list), max_size=20))


def stream(kinds: Sequence[str], rows: Sequence[Sequence[Any]], last: bytes, *, deprecate_eof: bool = False) -> bytes:
    before = written.definitions(kinds) + ([] if deprecate_eof else [written.eof()])
    return written.packets([*before, *(written.row(kinds, values) for values in rows), last])

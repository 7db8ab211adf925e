"""Definitions by number."""

from __future__ import annotations

import threading

import pytest

from cdc_core.errors import SchemaError
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.schema.table import Column, TableSchema


def table(name: str, *codes: int) -> TableSchema:
    return TableSchema("shop", name, tuple(Column(f"c{i}", code, 0) for i, code in enumerate(codes)), ("c0",))


def test_equal_definitions_have_one_number() -> None:
    """Numbers are given in the order of first sight."""
    registry = SchemaRegistry()

    numbers = [registry.intern(one) for one in (table("a", 8), table("b", 8), table("a", 8), table("a", 8, 3))]

    assert numbers == [0, 1, 0, 2]
    assert registry.get(2) == table("a", 8, 3)
    assert registry.row_layout(2).tolist() == [8, 4]
    assert repr(registry) == "<SchemaRegistry schemas=3>"


def test_threads_agree() -> None:
    """Two threads that meet the same tables give them the same numbers."""
    registry = SchemaRegistry()
    found: list[list[int]] = []

    def intern() -> None:
        found.append([registry.intern(table(f"t{n}", 8)) for n in range(300)])

    threads = [threading.Thread(target=intern) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found[1:] == found[:1] * 3
    assert len(registry) == 300


def test_a_number_never_given_is_an_error() -> None:
    """Also the -1 of events without a definition."""
    for number in (-1, 0):
        with pytest.raises(SchemaError):
            SchemaRegistry().get(number)
    with pytest.raises(SchemaError, match="type code 200"):
        SchemaRegistry().intern(table("t", 200))

"""Errors and their codes on the wire."""

from __future__ import annotations

import pytest

from cdc_core import errors
from cdc_core.errors import DecodeError, ErrorCode, RowsWithoutTable, SluiceError, TableStopped, error_from

CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SluiceError)]


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind is not RowsWithoutTable])
def test_each_class_comes_back_by_its_code(kind: type[SluiceError]) -> None:
    """The JSON form names the class by its code, and gives back the same class with the same parts."""
    told = kind("it failed", place="mysql-bin.000001:4", hint="Look.").as_dict()

    assert told == {"error": kind.__name__, "message": "it failed", "place": "mysql-bin.000001:4", "hint": "Look."}
    assert type(error_from(told)) is kind
    assert error_from(told).as_dict() == told


def test_codes_are_distinct() -> None:
    """No two classes share a code, but those that have none of their own."""
    own = [kind.code for kind in CLASSES if "code" in vars(kind)]

    assert len(own) == len(set(own)) == len(CLASSES) - 1
    assert set(ErrorCode) - set(own) == {ErrorCode.BAD_REQUEST, ErrorCode.INTERNAL, ErrorCode.PROCESS}


def test_an_unknown_code() -> None:
    """A code of a newer service stays readable in the message."""
    other = error_from({"error": "Newer", "message": "m", "place": "", "hint": "h"})

    assert type(other) is SluiceError
    assert other.message == "Newer: m"


def test_rows_without_a_table_are_a_decode_error_outside() -> None:
    """A caller sees the code of a DecodeError: only the source tells the two apart."""
    told = RowsWithoutTable("no table", hint="h").as_dict()

    assert told["error"] == "DecodeError"
    assert type(error_from(told)) is DecodeError


def test_the_text_has_all_three_parts() -> None:
    """Message, place and hint, in one line."""
    assert str(TableStopped("stopped", place="shop.orders", hint="Rebuild.")) == "stopped at shop.orders. Rebuild."

"""Every column type as the server's own SELECT tells it: written by SQL, decoded from the binlog, compared as text."""

# ruff: noqa: RUF001
from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from orchestration.stack.mysql import MySqlServer
from tests import type_matrix
from tests.type_matrix import Case, decoded, rows_of, selected, written

pytestmark = pytest.mark.integration

_WESTERN = "abcäöüéèß Çñ@~"
_CHARSETS = {
    "utf8mb4": "aé漢😀\u0000\n",
    "utf8mb3": "aé漢ß~",
    "ascii": "abc ~!",
    "latin1": _WESTERN + "€\u0081ÿ",
    "latin2": "aąęłŁőž",
    "latin5": "ağışİ",
    "latin7": "aāčžŽ",
    "cp1250": "ačřž€",
    "cp1251": "aЖяІ№",
    "cp1256": "aابت€",
    "cp1257": "aāšž€",
    "cp850": "aéñ░█",
    "cp852": "ačř░█",
    "cp866": "aЖя░√",
    "greek": "aαβΩΆ",
    "hebrew": "aאבת",
    "hp8": "aéÄš",
    "dec8": "aéÄŒ",
    "koi8r": "aЖя░",
    "koi8u": "aЖяїҐ",
    "tis620": "aกขค",
    "macroman": "aéΩ∞",
    "macce": "ačřž",
    "keybcs2": "ačř░√",
    "armscii8": "aԱա",
    "geostd8": "aაბგ",
    "swe7": "aÅÄÖü",
    "utf16": "aé漢😀",
    "utf16le": "aé漢😀",
    "utf32": "aé漢😀",
    "ucs2": "aé漢",
    "gbk": "a汉字",
    "gb2312": "a汉字",
    "big5": "a漢字碁",
    "sjis": "a漢字カｶ\\",
    "cp932": "a漢字①～",
    "ujis": "a漢字カ",
    "eucjpms": "a漢字～－",
    "euckr": "a한글",
}


def _compare(server: MySqlServer, cases: Iterable[Case]) -> None:
    listed = list(cases)
    with server.database() as database:
        tables = decoded(server, written(server, database, listed), database)
        for case in listed:
            expected = selected(server, database, case)
            actual = rows_of(tables[case.name], case)
            if case.asked == "{}*1e0":
                expected = [(i, *(None if v is None else repr(float(v)) for v in values)) for i, *values in expected]
            elif case.asked == "{}+0":
                expected = [(i, *(None if v is None else str(v) for v in values)) for i, *values in expected]
            wrong = [pair for pair in zip(expected, actual, strict=True) if pair[0] != pair[1]]

            assert not wrong, f"{case.name} {case.declared}: {wrong[:5]}"


_FAMILIES: dict[str, Callable[[random.Random], Iterable[Case]]] = {
    "integers": type_matrix.integers,
    "decimals": type_matrix.decimals,
    "floats": type_matrix.floats,
    "temporals": type_matrix.temporals,
    "strings": lambda rng: type_matrix.strings(rng, _CHARSETS),
    "enums": type_matrix.enums,
}


@pytest.mark.parametrize("family", _FAMILIES)
def test_mysql8_selects_what_is_decoded(mysql8: MySqlServer, family: str) -> None:
    """MySQL 8.0: each family of types, edge values and random ones."""
    _compare(mysql8, _FAMILIES[family](random.Random(family)))


@pytest.mark.parametrize("family", _FAMILIES)
def test_mysql9_selects_what_is_decoded(mysql9: MySqlServer, family: str) -> None:
    """MySQL 9: each family of types, edge values and random ones."""
    _compare(mysql9, _FAMILIES[family](random.Random(family)))


@pytest.mark.parametrize("family", _FAMILIES)
def test_mariadb_selects_what_is_decoded(mariadb: MySqlServer, family: str) -> None:
    """MariaDB: each family of types, edge values and random ones."""
    _compare(mariadb, _FAMILIES[family](random.Random(family)))

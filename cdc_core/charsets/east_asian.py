"""The East Asian character sets of one to four bytes a character, as tables from bytes to code points.

A table is Python's codec, with the characters listed here where MySQL differs. MySQL's rules say which bytes form a
character. A character that Unicode lacks becomes `?`, as in SELECT.
Source: the conversions of MySQL 5.7 to 9 and MariaDB 10.11, which are the same, over all characters of each set.
"""

# ruff: noqa: RUF001
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_core.charsets.unicode import NONE, REPLACEMENT, Offsets, first_of_each, put_character
from cdc_core.compiled.fault import ANSWER, MAX_TEXT, Answer, Fault
from cdc_core.compiled.kernel import OUT_BYTES, OUT_INTS, Bytes, helper, int64, kernel

Points = npt.NDArray[np.int32]
_TABLE = types.Array(types.int32, 1, "C", readonly=True)
_BMP, _BEYOND = 39420, 189000  # of gb18030's four bytes: how many lie below U+10000, and where U+10000 is


@dataclass(frozen=True, slots=True)
class Tables:
    """Code points by one byte, by two, by the two after 8F (EUC-JP), by the number of four (GB 18030); the last of
    these is for all numbers beyond Unicode. NONE: no character."""

    singles: Points
    pairs: Points
    triples: Points
    quads: Points

    @property
    def all(self) -> tuple[Points, ...]:
        return self.singles, self.pairs, self.triples, self.quads


_Spans = tuple[tuple[int, int], ...]
_KANA: _Spans = ((0xA1, 0xDF),)
_GB: tuple[_Spans, _Spans] = ((0x81, 0xFE),), ((0x40, 0x7E), (0x80, 0xFE))
_SJIS: tuple[_Spans, _Spans] = ((0x81, 0x9F), (0xE0, 0xFC)), ((0x40, 0x7E), (0x80, 0xFC))
_EUC: tuple[_Spans, _Spans] = ((0xA1, 0xFE),), ((0xA1, 0xFE),)
# Python's codec, MySQL's first and second bytes of two, single bytes beyond ASCII
_SETS: dict[str, tuple[str, tuple[_Spans, _Spans], _Spans]] = {
    "big5": ("big5", (((0xA1, 0xF9),), ((0x40, 0x7E), (0xA1, 0xFE))), ()),
    "cp932": ("cp932", _SJIS, _KANA),
    "eucjpms": ("euc_jp", _EUC, ((0x80, 0x8D), (0x90, 0xA0), (0xFF, 0xFF))),
    "euckr": ("cp949", (((0x81, 0xFE),), ((0x41, 0x5A), (0x61, 0x7A), (0x81, 0xFE))), ()),
    "gb18030": ("gb18030", _GB, ()),
    "gb2312": ("gb2312", (((0xA1, 0xF7),), ((0xA1, 0xFE),)), ()),
    "gbk": ("gbk", _GB, ()),
    "sjis": ("shift_jis", _SJIS, _KANA),
    "ujis": ("euc_jp", _EUC, ()),
}
NAMES = frozenset(_SETS)
_IBM_ROWS = [
    (a, b) for a in range(0xFA, 0xFD) for b in (*range(0x40, 0x7F), *range(0x80, 0xFD)) if (a, b) <= (0xFC, 0x4B)
]


def _ibm() -> str:
    """IBM's characters of eucjpms from 8FF3F3 on: in the order of cp932, without those that JIS X 0212 has."""
    listed = bytes(byte for pair in _IBM_ROWS for byte in pair).decode("cp932")
    old = {*listed.encode("euc_jp", "ignore").decode("euc_jp"), "￢", "￤"} - {"№"}
    return "".join(character for character in listed if character not in old)


_ODD: dict[str, dict[int, str]] = {
    "big5": dict(zip(range(0xF9D6, 0xF9DD), "碁銹裏墻恒粧嫺", strict=True))
    | dict.fromkeys((0xA15A, 0xA1C3, 0xA1C5, 0xA1FE, 0xA240, 0xA2CC, 0xA2CE), "\ufffd"),
    "eucjpms": {0x8FA2B7: "～", 0x8FA2C3: "￤"}
    | dict(zip((*range(0x8FF3F3, 0x8FF3FF), *range(0x8FF4A1, 0x8FF4FF)), _ibm(), strict=True)),
    "gb18030": {0xA8BC: "\u1e3f", 0x8135F437: "\ue7c7"},
    "sjis": {0x815F: "\\"},
    "ujis": {0xA1C0: "\\"},
}


_SECOND = {"cp932": ("pairs", range(0xED40, 0xEF00)), "sjis": ("singles", range(0x5C, 0x5D))}
"""Codes whose characters have another code, to which the server converts them; else that is the first one."""


@cache
def tables(name: str, *, unique: bool = False) -> Tables:
    """A set's tables; the first call takes some 50 ms. `unique`: a character has one code alone, to which the server
    converts it, and what Unicode lacks has none."""
    found = _tables(name)
    return _unique(name, found) if unique else found


@cache
def _tables(name: str) -> Tables:
    _, (leads, trails), high = _SETS[name]
    singles, pairs = np.full(256, NONE, np.int32), np.full(65536, NONE, np.int32)
    triples, quads = np.empty(0, np.int32), np.empty(0, np.int32)
    _fill(singles, name, (bytes([b]) for b in (*range(0x80), *_bytes(high))))
    _fill(pairs, name, (bytes([a, b]) for a in _bytes(leads) for b in _bytes(trails)))
    if name in ("eucjpms", "ujis"):
        triples = np.full(65536, NONE, np.int32)
        _fill(triples, name, (bytes([0x8F, a, b]) for a in _bytes(leads) for b in _bytes(trails)))
        _fill(pairs, name, (bytes([0x8E, b]) for b in _bytes(_KANA)))
    if name == "gb18030":
        quads = np.array([*(_point(name, _quad(number)) for number in range(_BMP)), ord("?")], np.int32)
    return Tables(singles, pairs, triples, quads)


def _unique(name: str, found: Tables) -> Tables:
    kept, known = Tables(*(table.copy() for table in found.all)), {NONE, REPLACEMENT}
    table, codes = _SECOND.get(name, ("singles", range(0)))
    getattr(kept, table)[codes.start : codes.stop] = NONE
    for points in kept.all:
        points[:] = first_of_each(points.tolist(), known)
    return kept


def _bytes(spans: _Spans) -> list[int]:
    return [byte for low, high in spans for byte in range(low, high + 1)]


def _fill(table: Points, name: str, characters: Iterable[bytes]) -> None:
    for character in characters:
        table[int.from_bytes(character[-2:], "big")] = _point(name, character)


def _point(name: str, character: bytes) -> int:
    """A character's code point."""
    odd = _ODD.get(name, {}).get(int.from_bytes(character, "big"))
    if odd:
        return ord(odd)
    codec = _SETS[name][0]
    if codec == "euc_jp" and len(character) > 1 and character[-2] >= 0xF5:  # user-defined
        return (0xE000 if len(character) == 2 else 0xE3AC) + (character[-2] - 0xF5) * 94 + character[-1] - 0xA1
    if name == "eucjpms" and len(character) == 2 and character[0] != 0x8E:
        codec, character = "cp932", _shifted(*character)
    try:
        return ord(character.decode(codec))
    except UnicodeDecodeError:
        return ord("?")


def _shifted(lead: int, trail: int) -> bytes:
    """A character of JIS X 0208 from EUC to Shift-JIS."""
    row, cell = lead - 0xA0, trail - 0xA0
    first = (row + 1) // 2 + (0x80 if row <= 62 else 0xC0)
    if row % 2 == 0:
        return bytes([first, cell + 0x9E])
    return bytes([first, cell + (0x3F if cell < 64 else 0x40)])


def _quad(number: int) -> bytes:
    """The four bytes of GB 18030 by their number."""
    number, fourth = divmod(number, 10)
    number, third = divmod(number, 126)
    return bytes([0x81 + number // 10, 0x30 + number % 10, 0x81 + third, 0x30 + fourth])


@helper
def _by_four(raw: Bytes, k: int, quads: Points) -> int:
    first, second, third, fourth = int64(raw[k]), int64(raw[k + 1]), int64(raw[k + 2]), int64(raw[k + 3])
    if first < 0x81 or third < 0x81 or third == 0xFF or fourth < 0x30 or fourth > 0x39:
        return -1
    number = (((first - 0x81) * 10 + second - 0x30) * 126 + third - 0x81) * 10 + fourth - 0x30
    if number < _BMP:
        return int64(quads[number])
    point = number - _BEYOND + 0x10000
    return point if 0x10000 <= point <= 0x10FFFF else int64(quads[_BMP])


@kernel(ANSWER(OUT_BYTES, OUT_INTS, _TABLE, _TABLE, _TABLE, _TABLE, OUT_BYTES, OUT_INTS))
def from_east_asian(
    raw: Bytes,
    offsets: Offsets,
    singles: Points,
    pairs: Points,
    triples: Points,
    quads: Points,
    out: Bytes,
    ends: Offsets,
) -> Answer:
    """One to four bytes a character; the second byte says how many."""
    at = 0
    for i in range(len(offsets) - 1):
        k, high = int64(offsets[i]), int64(offsets[i + 1])
        while k < high:
            width, point = 1, int64(singles[raw[k]])
            if point < 0 and k + 1 < high:
                second = raw[k + 1]
                width = 3 if len(triples) and raw[k] == 0x8F else 4 if len(quads) and 0x30 <= second <= 0x39 else 2
                if k + width > high:
                    return Fault.MALFORMED, i
                if width == 2:
                    point = int64(pairs[int64(raw[k]) << 8 | int64(second)])
                elif width == 3:
                    point = int64(triples[int64(second) << 8 | int64(raw[k + 2])])
                else:
                    point = _by_four(raw, k, quads)
            if point < 0:
                return Fault.MALFORMED, i
            at = put_character(point, out, at)
            k += width
        if at > MAX_TEXT:
            return Fault.TOO_LARGE, i
        ends[i + 1] = at
    return Fault.OK, 0

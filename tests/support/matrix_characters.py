"""Cases of every character set that a server lists: samples in each type, and every character."""

# ruff: noqa: RUF001
from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import numpy as np

from cdc_core.charsets.east_asian import NAMES, tables
from cdc_core.charsets.narrow import NARROW
from tests.support.type_matrix import TEXT, Case, hexadecimal

_WESTERN = "abcäöüéèß Çñ@~"
SAMPLES = {
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
    "gb18030": "a汉字😀ḿ",
}

_TYPES = ("CHAR(60)", "VARCHAR(60)", "VARCHAR(300)", "TINYTEXT", "TEXT", "LONGTEXT")
_UNICODE = ("utf8mb4", "utf8mb3", "utf8", "ucs2", "utf16", "utf16le", "utf32")


def samples(rng: random.Random, listed: Iterable[str]) -> Iterator[Case]:
    """Each set in each type of text. A set without a sample is a KeyError and must get one."""
    for name in sorted(set(listed) - {"binary"}):
        sample = SAMPLES["utf8mb3" if name == "utf8" else name]
        texts = [
            "",
            "a",
            "  lead",
            sample[:20],
            *("".join(rng.choices(sample, k=rng.randint(0, 60))) for _ in range(25)),
        ]
        values = [f"CONVERT(_utf8mb4 x'{text.encode().hex()}' USING {name})" for text in texts]
        for declared in _TYPES:
            yield Case(name, f"{declared} CHARACTER SET {name}", values, hexadecimal, TEXT)
        some = list(dict.fromkeys(letter for letter in sample if letter.isalpha() and letter != "a"))[:3]
        labels = ", ".join(f"'{letter}'" for letter in ("a", *some) if letter.isprintable())
        yield Case(name, f"ENUM({labels}) CHARACTER SET {name}", ["1", str(1 + len(some))], hexadecimal, TEXT)
        yield Case(name, f"SET({labels}) CHARACTER SET {name}", ["0", str(2 ** len(some)), "3"], hexadecimal, TEXT)


def every(listed: Iterable[str]) -> Iterator[Case]:
    """All characters of each set; in the bytes of the set where it is not a form of Unicode."""
    for name in sorted(set(listed)):
        if name in NARROW or name == "ascii":
            values = [f"_{name} x'{byte:02x}'" for byte in range(256 if name in NARROW else 128)]
        elif name in NAMES:
            values = [f"CONVERT(x'{row.hex()}' USING {name})" for row in _rows(name)]
        elif name in _UNICODE:
            beyond = () if name in ("utf8", "utf8mb3", "ucs2") else _beyond()
            points = [*range(0xD800), *range(0xE000, 0x10000), *beyond]
            chunks = ("".join(map(chr, points[low : low + 256])) for low in range(0, len(points), 256))
            values = [f"CONVERT(_utf8mb4 x'{chunk.encode().hex()}' USING {name})" for chunk in chunks]
        else:
            continue
        yield Case(name, f"TEXT CHARACTER SET {name}", values, hexadecimal, TEXT)


def codes(name: str) -> Iterator[bytes]:
    """Every character of a set that is not a form of Unicode, in its bytes; of GB 18030 those of two bytes."""
    if name in NARROW:
        yield from (bytes([code]) for code in range(256))
    if name in NAMES:
        known = tables(name)
        for lead, points, width in (b"", known.singles, 1), (b"", known.pairs, 2), (b"\x8f", known.triples, 2):
            yield from (lead + code.to_bytes(width, "big") for code in np.flatnonzero(points >= 0).tolist())


def _beyond() -> Iterator[int]:
    """The ends of each plane beyond the first."""
    for plane in range(1, 17):
        yield from range(plane << 16, (plane << 16) + 256)
        yield from range((plane << 16) + 0xFF00, (plane << 16) + 0x10000)


def _rows(name: str) -> Iterator[bytes]:
    """Every character of an East Asian set, row by row, those without an equal in Unicode included."""
    known = tables(name)
    yield bytes(np.flatnonzero(known.singles >= 0).astype(np.uint8))
    for lead in b"", b"\x8f":
        allowed = known.triples if lead else known.pairs
        codes = np.flatnonzero(allowed >= 0).tolist()
        for low in range(0, len(codes), 188):
            yield b"".join(lead + code.to_bytes(2, "big") for code in codes[low : low + 188])
    if len(known.quads):
        text = [chr(point) for point in (*range(0x80, 0xD800), *range(0xE000, 0x10000), *_beyond())]
        for low in range(0, len(text), 256):
            yield "".join(text[low : low + 256]).encode("gb18030")

"""Alphabets of the character sets with one byte a character: Python's codec, and where MySQL differs from it.

A byte that the set leaves undefined is `?`, as in the server's own conversion.
"""

# ruff: noqa: RUF001
from __future__ import annotations

_ARMSCII8 = "❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'"
_GEOSTD8_QUOTES = "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????"
_GEOSTD8_LETTERS = "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ???????????????????????№??"
_KEYBCS2 = (
    "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
    "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■"
)
_DEC8_HOLES = dict.fromkeys((0xA4, 0xA6, 0xAC, 0xAD, 0xAE, 0xAF, 0xB4, 0xB8, 0xBE, 0xD0, 0xDE, 0xF0, 0xFE, 0xFF), "?")

NARROW: dict[str, tuple[str, dict[int, str]]] = {
    "armscii8": ("latin_1", dict(zip(range(0xA1, 0x100), _ARMSCII8, strict=True))),
    "cp1250": ("cp1250", {}),
    "cp1251": ("cp1251", {}),
    "cp1256": ("cp1256", dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), "?")),
    "cp1257": ("cp1257", {}),
    "cp850": ("cp850", {}),
    "cp852": ("cp852", {}),
    "cp866": ("cp866", {0xFC: "\u207f", 0xFD: "\xb2"}),
    "dec8": ("latin_1", _DEC8_HOLES | {0xA8: "\xa4", 0xD7: "\u0152", 0xDD: "\u0178", 0xF7: "\u0153", 0xFD: "\xff"}),
    "geostd8": (
        "latin_1",
        dict(zip(range(0x80, 0xA0), _GEOSTD8_QUOTES, strict=True))
        | dict(zip(range(0xC0, 0x100), _GEOSTD8_LETTERS, strict=True)),
    ),
    "greek": ("iso8859_7", {0xA1: "\u02bd", 0xA2: "\u02bc", 0xA4: "?", 0xA5: "?", 0xAA: "?"}),
    "hebrew": ("iso8859_8", {0xAF: "\u203e"}),
    "hp8": ("hp_roman8", {}),
    "keybcs2": ("latin_1", dict(zip(range(0x80, 0xFF), _KEYBCS2, strict=True)) | {0xFF: "\xa0"}),
    "koi8r": ("koi8_r", {}),
    "koi8u": ("koi8_u", {0x95: "\u2022"}),
    "latin1": ("cp1252", {code: chr(code) for code in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "latin2": ("iso8859_2", {}),
    "latin5": ("iso8859_9", {}),
    "latin7": ("iso8859_13", {}),
    "macce": ("mac_latin2", {}),
    "macroman": ("mac_roman", {}),
    "swe7": ("ascii", dict(zip(b"@[\\]^`{|}~\x7f", "\xc9\xc4\xd6\xc5\xdc\xe9\xe4\xf6\xe5\xfc?", strict=True))),
    "tis620": ("tis_620", dict.fromkeys((0xA0, *range(0xDB, 0xDF), *range(0xFC, 0x100)), "\ufffd")),
}


def alphabet(name: str) -> str:
    """The 256 characters of a set, by their bytes."""
    codec, moved = NARROW[name]
    known = (bytes([code]).decode(codec, "replace") for code in range(256))
    return "".join(moved.get(code, "?" if character == "\ufffd" else character) for code, character in enumerate(known))

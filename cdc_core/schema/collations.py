"""Collation ids and Python's codec for each: for labels in metadata, never for rows."""

from __future__ import annotations

import codecs

from cdc_core.binlog.columns.collations import RANGES

BINARY = 63
_CODECS = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "latin1": "cp1252",
    "binary": "latin-1",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
    "sjis": "shift_jis",
    "euckr": "euc_kr",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "tis620": "tis_620",
}
_NAMES = {number: name for name, spans in RANGES.items() for low, high in spans for number in range(low, high + 1)}


def codec_of(collation: int) -> str:
    """The codec of a collation's character set; UTF-8 for ids that are not known (all recent ones are utf8mb4)."""
    name = _NAMES.get(collation, "utf8mb4")
    codec = _CODECS.get(name, name)
    try:
        return codecs.lookup(codec).name
    except LookupError:
        return "ascii"  # a rare set that Python lacks: its labels can be told if they are plain

"""Collation ids and Python's codec for each: for labels and names in metadata, never for rows."""

from __future__ import annotations

from pymysql.charset import charset_by_id

BINARY = 63
_CODECS = {"ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "latin1": "cp1252"}


def codec_of(collation: int) -> str:
    """The codec of a collation's character set; UTF-8 for ids that are not known (all recent ones are utf8mb4)."""
    try:
        charset = charset_by_id(collation)
    except KeyError:
        return "utf-8"
    return _CODECS.get(charset.name, charset.encoding or "utf-8")

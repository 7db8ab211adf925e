"""Identifiers and literals in Spark's SQL."""

from __future__ import annotations


def quote(name: str) -> str:
    """An identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

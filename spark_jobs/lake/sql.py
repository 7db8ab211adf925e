"""Identifiers and literals in Spark's SQL."""

from __future__ import annotations


def quote(name: str) -> str:
    """An identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def table_at(path: str, version: int) -> str:
    """The Delta table at a path as a version had it, for FROM."""
    return f"delta.{quote(path)} VERSION AS OF {version:d}"

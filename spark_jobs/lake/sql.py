"""Identifiers and literals in Spark's SQL."""

from __future__ import annotations


def quote(name: str) -> str:
    """Returns an identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Returns a string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def table_at(path: str, version: int) -> str:
    """Returns a version of the Delta table at a path, for FROM."""
    return f"delta.{quote(path)} VERSION AS OF {version:d}"

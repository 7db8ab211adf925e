"""Identifiers in MySQL's SQL."""

from __future__ import annotations


def quote(name: str) -> str:
    """An identifier in MySQL."""
    return "`" + name.replace("`", "``") + "`"

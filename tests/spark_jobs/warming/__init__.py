"""Spark warmed by made-up changes."""

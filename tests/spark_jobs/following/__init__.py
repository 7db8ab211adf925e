"""Logs that are merged into their tables."""

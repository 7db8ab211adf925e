"""Merging a batch into Delta."""

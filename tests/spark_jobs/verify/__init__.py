"""Comparing source and lake."""

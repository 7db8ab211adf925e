"""Measurements: each `bench_*.py` prints one JSON object a line."""

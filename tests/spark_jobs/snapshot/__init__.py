"""Snapshots of the source at a known place."""

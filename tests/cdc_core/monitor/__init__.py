"""The monitor of several clusters."""

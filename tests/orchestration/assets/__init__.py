"""Draining a destination, and the processes of runs."""

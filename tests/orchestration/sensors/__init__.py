"""Backlog, lag and run-status sensors."""

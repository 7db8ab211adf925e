"""Connecting, checking and reading a dump; where reading starts."""

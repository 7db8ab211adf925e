"""Destinations of one server that share a connection."""

"""Connectors and consumers: calls, retries, fail-over to another server."""

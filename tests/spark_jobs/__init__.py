"""Spark Connect sessions and the data source."""

"""Dagster: definitions, components and destinations."""

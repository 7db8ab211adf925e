"""Dagster's jobs, schedules and what they wait for."""

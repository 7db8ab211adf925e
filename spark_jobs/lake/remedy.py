"""Remedies for a table whose rows in the lake are wrong or missing."""

from __future__ import annotations

from cdc_core.errors import naming, safe_name


def copy_hint(destination: str, table: str) -> str:
    """Returns the remedy for a table of a destination: reload it from the source."""
    job = f"snapshot_{safe_name(destination)}"
    return (
        f"Reload the table from the source: `sluice copy {destination} {table}`, or where it is large, while the "
        f"stream goes on, `sluice snapshot {destination} {table}`. In Dagster, the job {job}."
    )


def repair_hint(destination: str, table: str) -> str:
    """Returns the remedy for a table with a key and some rows that differ: repair these alone."""
    return (
        f"Repair the rows, while the stream goes on: `sluice verify --repair --destination {destination} --table "
        f"{table}`. In Dagster, the job verify_{safe_name(destination)}, with `repair`."
    )


def spelled_out(hint: str, destination: str, table: str) -> str:
    """Returns the hint with the destination, the table and the job, if it names the command alone."""
    command = f"(`sluice copy {destination} {table}`, or in Dagster the job snapshot_{safe_name(destination)})"
    return naming(hint.replace("(sluice copy)", command), destination)

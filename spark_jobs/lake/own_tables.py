"""Sluice's own Delta tables beside the lake's: the ledger, the corrections, the notes of tables, the lake's writer.

Each is there from its first row or note on, so none at its place is no error.
"""

from __future__ import annotations

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_core.errors import LakeError
from spark_jobs.lake.failures import first_line, store_failed
from spark_jobs.lake.tables import Lake

_READABLE = "Make the lake readable. Nothing is lost: the batch stays claimable, and the change logs are kept."
_RESTORE = "Restore this folder from a copy:"


def open_own(lake: Lake, path: str, what: str, without: str) -> DeltaTable | None:
    """Returns the table at a path, as it is now, or None if nothing has been written there yet. Raises LakeError for
    one that is damaged or cannot be read. `what`: its name for people, `without`: what is not possible without it."""
    try:
        return lake.open(path)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        hint = _READABLE if store_failed(error) else f"{_RESTORE} {without}."
        raise LakeError(f"{what} cannot be read: {first_line(error)}", place=path, hint=hint) from error

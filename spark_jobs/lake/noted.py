"""Notes by table: properties of an empty Delta table next to the ledger.

They are not in the tables' own properties: a change of these would make Delta refuse what another run writes at the
same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import PrimitiveType

from cdc_core.errors import LakeError
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.own_tables import open_own
from spark_jobs.lake.tables import Lake

_TRIES = 20  # a try is lost to a commit that came in between
_FEW_COMMITS = {"delta.logRetentionDuration": "interval 1 days"}  # of notes that change with each merge


@dataclass(frozen=True, slots=True)
class Noted:
    """The notes at one path. Several kinds may share it, each with its own prefix."""

    lake: Lake
    path: str

    def read(self, prefix: str) -> dict[str, str]:
        """Returns the notes with this prefix that are not empty, by the rest of their name. Raises LakeError."""
        table = open_own(self.lake, self.path, "the table notes", "they say which tables wait, and for what")
        properties = table.metadata().configuration if table is not None else {}
        return {key.removeprefix(prefix): text for key, text in properties.items() if text and key.startswith(prefix)}

    def write(self, notes: Mapping[str, str]) -> None:
        """Replaces the notes of these names; "" removes one. Raises LakeError."""
        storage = self.lake.storage or None
        for _ in range(_TRIES):
            try:
                schema = Schema([Field("note", PrimitiveType("string"))])
                there = DeltaTable.create(self.path, schema, mode="ignore", storage_options=storage)
                there.alter.set_table_properties(dict(notes), raise_if_not_exists=False)
            except CommitFailedError:
                continue
            except (DeltaError, OSError) as error:
                raise self._away(error) from error
            return
        hint = "Make sure that nothing else writes them. Nothing is lost: the batch stays claimable, the logs are kept."
        raise LakeError("other writers keep committing to the table notes", place=self.path, hint=hint)

    def agree(self, name: str, decide: Callable[[str], str]) -> str:
        """Replaces the note of that name, "" if there is no such note, by `decide` of it, with no other note in
        between, and returns it. Raises LakeError, and what `decide` raises."""
        storage = self.lake.storage or None
        for _ in range(_TRIES):
            try:
                schema = Schema([Field("note", PrimitiveType("string"))])
                there = DeltaTable.create(self.path, schema, mode="ignore", storage_options=storage)
                before = there.metadata().configuration.get(name, "")
            except (DeltaError, OSError) as error:
                raise self._away(error) from error
            after = decide(before)
            if after == before:
                return after
            try:
                there.alter.set_table_properties({name: after, **_FEW_COMMITS}, raise_if_not_exists=False)
            except CommitFailedError:
                continue
            except (DeltaError, OSError) as error:
                raise self._away(error) from error
            return after
        hint = "Make sure that nothing else writes them. Nothing is lost: the batch stays claimable, the logs are kept."
        raise LakeError("other writers keep committing to the table notes", place=self.path, hint=hint)

    def _away(self, error: BaseException) -> LakeError:
        hint = "Make the lake readable and writable. Nothing is lost: the batch stays claimable, and the logs are kept."
        return LakeError(f"the table notes are unavailable: {first_line(error)}", place=self.path, hint=hint)

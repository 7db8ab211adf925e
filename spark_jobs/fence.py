"""Keeps the writers of earlier claims out of a table.

A killed run's statement goes on in Spark. It may commit after the next claimer has read how far the table is, and
before that one's own statement begins: both would then count. A fence is an empty commit that names the table's app id.
Delta refuses a commit whose transaction began before the fence, since it depends on that id; one that begins after it
finds its tickets refused, since its claim is gone. After the fence, what is read of a table stays so.
It does not keep out two writers who hold the same claim: that is what the service's leases are for.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from cdc_core.errors import LakeError
from spark_jobs.lake import Lake, TableState, lake_errors
from spark_jobs.session import Sessions
from spark_jobs.types import quote

_TRIES = 20  # each lost to a commit that came in between


class Fence:
    """For one run: fences each table once, before its first batch. Several tables at the same time are fine."""

    def __init__(self, lake: Lake, sessions: Sessions) -> None:
        self._lake = lake
        self._sessions = sessions
        self._inside: set[str] = set()

    def __repr__(self) -> str:
        return f"<Fence tables={len(self._inside)}>"

    def enter(self, path: str, app: str, state: TableState, earlier: Sequence[str] = ()) -> TableState:
        """The table's state, from now on changed by this run alone. `earlier`: app ids that writers may still have."""
        if path in self._inside:
            return state
        try:
            self._commit(path, [*earlier, app])
        except DeltaError:  # a feature of the table that delta-rs cannot write: its names of columns, for one
            self._alter(path)
        except OSError as error:
            hint = "Make the lake writable and give it room; the batch stays claimable."
            told = " ".join(str(error).split())[:500]
            raise LakeError(f"the table cannot be written: {told}", place=path, hint=hint) from error
        self._inside.add(path)
        return self._lake.state(path, app) or state

    def made(self, path: str) -> None:
        """This run made the table: nobody else was there before."""
        self._inside.add(path)

    def _commit(self, path: str, apps: Sequence[str]) -> None:
        """The ids' versions stay what they are. Had one changed since it was read, the commit would fail."""
        for _ in range(_TRIES):
            table = DeltaTable(path, storage_options=self._lake.storage or None)
            nothing = pa.Table.from_batches([], pa.schema(table.schema().to_arrow()))
            same = [Transaction(app, table.transaction_version(app) or 0) for app in apps]
            properties = CommitProperties(app_transactions=same)
            try:
                write_deltalake(table, nothing, mode="append", commit_properties=properties)
            except CommitFailedError:
                continue
            return
        hint = "See that nobody else writes this table; the batch stays claimable."
        raise LakeError("others keep committing to the table", place=path, hint=hint)

    def _alter(self, path: str) -> None:
        """By Spark: a change of the table's metadata is in conflict with every transaction under way."""
        with self._sessions.take() as spark, lake_errors(path):
            spark.sql(f"ALTER TABLE delta.{quote(path)} SET TBLPROPERTIES ('sluice.fence' = '{uuid.uuid4()}')")

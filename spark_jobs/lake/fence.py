"""Keeps the writers of earlier claims out of a table.

The statement of a killed run goes on in Spark. It may commit after the next run has read how far the table is, and
before that run's own statement begins: both would then count. A fence is a commit that writes the run's own token into
the table's properties. Delta refuses every transaction that began before it, whatever it does, because the table's
metadata changed. A statement that begins after the fence is refused in one of three ways:

- one that carries a version (`transaction`) is skipped where the table has that version;
- one that pulls rows finds its tickets refused, because its claim is gone;
- an ALTER TABLE, which carries no version in Delta, is not sent: `check` finds another run's token.

A fence does not keep out two writers of the same claim; the service's leases do.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.table import TableAlterer

from cdc_core.errors import LakeError
from spark_jobs.lake.failures import first_line, lake_errors
from spark_jobs.lake.properties import set_properties
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.sql import literal, quote
from spark_jobs.lake.state import FENCE, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import commit_nothing, transaction
from spark_jobs.session import Sessions

NOTHING: Mapping[str, str] = MappingProxyType({})
_TRIES = 20  # a try is lost to a commit that came in between


class Fence:
    """Fences each table once for a run, before its first batch. Safe to use for several tables at the same time."""

    def __init__(self, lake: Lake, sessions: Sessions) -> None:
        self._lake = lake
        self._sessions = sessions
        self._inside: set[str] = set()
        self.token = uuid.uuid4().hex

    def __repr__(self) -> str:
        return f"<Fence {self.token[:8]} tables={len(self._inside)}>"

    def enter(self, path: str, app: str, state: TableState, noted: Mapping[str, str] = NOTHING) -> TableState:
        """Fences the table, and returns its state, which only this run changes from now on. `noted`: other properties
        that it gets with the fence. Raises LakeError for a table that cannot be written."""
        if path in self._inside:
            return state
        properties = {**noted, FENCE: self.token}
        for _ in range(_TRIES):
            made = self._fence(path, properties)
            found = self._lake.state(path, app)
            if made is None or found is None or self.owns(found) or self._stands(path, made):
                self._inside.add(path)
                return found or state
        raise _others_commit(path)

    def _fence(self, path: str, properties: dict[str, str]) -> int | None:
        """Commits the fence, and returns its version, or None if Spark made it."""
        try:
            return self._commit(path, partial(_set, properties, None))
        except DeltaError:  # the table has a feature that delta-rs cannot write, such as column mapping
            self._alter(path, properties)
            return None

    def _stands(self, path: str, version: int) -> bool:
        """Whether the commit of that version is this run's fence, so that a later one is another run's. On a local disk
        Spark replaces a commit that came after it has looked for one."""
        return self._lake.open(path, version).metadata().configuration.get(FENCE) == self.token

    def entered(self, path: str) -> bool:
        """Whether this run has fenced the table."""
        return path in self._inside

    def skip(self, path: str) -> None:
        """Counts the table as entered: this run created it, with its token, so it has no earlier writer."""
        self._inside.add(path)

    def leave(self, path: str) -> None:
        """Forgets the table, which may be another run's meanwhile: `enter` fences it again."""
        self._inside.discard(path)

    def owns(self, state: TableState) -> bool:
        """Whether no other run has fenced the table of that state since this one did."""
        return state.properties.get(FENCE) == self.token

    def check(self, path: str) -> None:
        """Raises LakeError when another run has fenced the table since this one did, or when it cannot be read."""
        try:
            table = self._lake.open(path)
        except (DeltaError, OSError) as error:
            hint = "Make the table readable, or put it back; the batch stays claimable."
            raise LakeError(f"the Delta table cannot be opened: {first_line(error)}", place=path, hint=hint) from error
        self._check(table, path)

    def _check(self, table: DeltaTable, path: str) -> None:
        if table.metadata().configuration.get(FENCE) != self.token:
            hint = "No action needed: the run that has the claim now writes this table."
            raise LakeError("another run has taken the table over, so this run lost its claim", place=path, hint=hint)

    def alter(self, path: str, change: Callable[[TableAlterer], None]) -> bool:
        """Changes the metadata of a table that only this run changes, without Spark: `change` makes one commit. Returns
        False if delta-rs cannot write the table. Raises LakeError when another run has fenced it since this one did."""
        try:
            self._commit(path, change, owned=True)
        except DeltaError:  # as in `enter`
            return False
        return True

    def note(self, path: str, properties: Mapping[str, str], noted: CommitProperties | None = None) -> bool:
        """Sets properties likewise, in a commit with the properties `noted`."""
        return self.alter(path, partial(_set, {**properties, FENCE: self.token}, noted))

    def pass_over(self, path: str, versions: Mapping[str, int]) -> None:
        """Notes in a table that only this run changes that it has these versions, by app id: Delta skips the statements
        that carry them. Raises LakeError."""
        noted = CommitProperties(app_transactions=app_versions(versions))
        try:
            self._commit(path, partial(_set, {FENCE: self.token}, noted))
        except DeltaError:  # as above
            column = self._lake.open(path).schema().fields[0].name
            with self._sessions.take() as spark, lake_errors(path):
                for app, version in versions.items():
                    with transaction(spark, app, version):
                        commit_nothing(spark, path, column)

    def _commit(self, path: str, change: Callable[[TableAlterer], None], *, owned: bool = False) -> int:
        """Makes the change, and returns the version of its commit."""
        for _ in range(_TRIES):
            try:
                table = self._lake.open(path)
                if owned:
                    self._check(table, path)
                change(table.alter)
            except CommitFailedError as error:
                if "Unsupported table features" in str(error):
                    raise DeltaError(str(error)) from error
                continue
            except OSError as error:
                hint = "Make the lake writable and give it room; the batch stays claimable."
                words = " ".join(str(error).split())[:500]
                raise LakeError(f"the table cannot be written: {words}", place=path, hint=hint) from error
            return int(table.version())
        raise _others_commit(path)

    def _alter(self, path: str, properties: dict[str, str]) -> None:
        listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
        with self._sessions.take() as spark, lake_errors(path):
            spark.sql(f"ALTER TABLE delta.{quote(path)} SET TBLPROPERTIES ({listed})")


def _others_commit(path: str) -> LakeError:
    hint = "Make sure that nothing else writes this table; the batch stays claimable."
    return LakeError("other writers keep committing to the table", place=path, hint=hint)


def _set(properties: dict[str, str], noted: CommitProperties | None, altered: TableAlterer) -> None:
    set_properties(altered.table, properties, noted)

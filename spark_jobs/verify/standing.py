"""Finds the rows of a table that the lake must have at its present place, while others write and drain.

A claim is held for a moment, so the lake stands still. The rows are read at the source, which is ahead. The claims from
the lake's place to the source's end show which of them changed in between, and how they were before: those images
count. So writers need not pause, and no row counts as wrong because the lake is behind.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pymysql
from deltalake import DeltaTable

from cdc_core.client.connector import Connector
from cdc_core.contract.claim import Claim
from cdc_core.contract.client_status import ClientStatus
from cdc_core.errors import DecodeError, LakeError
from cdc_core.position import EntryPosition
from cdc_core.rows.system_columns import CHANGES, is_before, versions
from cdc_core.schema.column_rule import ZeroDates
from cdc_core.schema.table import TableSchema
from spark_jobs.following.pending import Follows
from spark_jobs.lake.state import TableState, app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.load.hold import Hold, held
from spark_jobs.snapshot.binlog import position, reaches
from spark_jobs.snapshot.place import begin, lasting, settled
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.verify.counts import Copies
from spark_jobs.verify.keys import conditions
from spark_jobs.verify.lake_rows import rows_of_keys
from spark_jobs.verify.on_purpose import OnPurpose
from spark_jobs.verify.row_text import lake_text
from spark_jobs.verify.sums import Columns

_LEASE_SECONDS = 60.0
_ROWS = 100_000  # of one claim
_REASON = "a table was compared meanwhile"
_POLLS = 20  # half seconds in which the service reads what the source has


class Moving(LakeError):
    """Source, service or lake moved, so that the rows could not be judged. Another try helps."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row, and its text."""

    text: bytes
    row: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """`rows` that the table must have, by the text of their key; None for a key without a row. `undecided` keys come
    again from an earlier epoch. The lake's table has `state`; its place is `place`, a position of `epoch`."""

    rows: dict[bytes, Row | None]
    undecided: frozenset[bytes]
    state: TableState
    place: EntryPosition
    epoch: int
    hold: Hold


@dataclass(frozen=True, slots=True)
class Pinned:
    """`connection` is in a snapshot of the source at `end`, `table` the lake's at one version, whose place is `place`.
    `since`: the source's changes between the two."""

    connection: pymysql.Connection[Any]
    table: DeltaTable
    since: Copies
    place: EntryPosition
    end: EntryPosition


@dataclass(frozen=True, slots=True)
class Lag:
    """The changes that the lake, whose table has `state` at `place`, lacks: the rows of `claims` after a version. Up to
    `bound` it may have them by an earlier epoch."""

    claims: list[Claim]
    state: TableState
    place: EntryPosition
    after: int
    bound: int


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A table of one client that is compared. `parents` returns the tables whose cascades change some of its rows
    without the binlog, `purposes` which of its rows corrections made different."""

    connector: Connector
    source: Source
    lake: Lake
    schema: TableSchema
    zero_dates: ZeroDates
    parents: Callable[[], Collection[str]] = frozenset
    purposes: Callable[[], OnPurpose] = OnPurpose

    @property
    def path(self) -> str:
        return self.lake.path(self.schema.database, self.schema.table)

    @property
    def columns(self) -> Columns:
        """The columns that are compared."""
        return Columns.of(self.schema)

    @contextmanager
    def standing(self, keys: Collection[bytes], sleep: Callable[[float], None]) -> Iterator[ExpectedRows]:
        """Yields the rows that the lake must have; it stands still for the length of the block.

        Raises Moving, NoRest; SessionError when another owner keeps a claim for too long; what `read_rows` raises.
        """
        owner, known = _owner(), self._lasting(sleep)
        with held(self.connector, owner, reason=_REASON) as hold:
            self._await_merged(sleep)
            before = self.connector.client_status()
            with connect(self.source) as connection:
                connection.autocommit(True)
                settled(connection, sleep, known)  # what the lake has, the engine shows
                rows = self._at_source(keys)
                end = position(connection)
                lag = self._lag(hold, owner, before, lambda at: reaches(connection, at, end), sleep)
            undecided: set[bytes] = set()
            seen: set[bytes] = set()
            for claim in lag.claims:
                for key, version, row in self._images(claim, lag.after, keys):
                    if version <= lag.bound:
                        undecided.add(key)
                    if key not in seen:
                        seen.add(key)
                        rows[key] = row
            yield ExpectedRows(rows, frozenset(undecided), lag.state, lag.place, before.epoch, hold)

    @contextmanager
    def pinned(self, sleep: Callable[[float], None]) -> Iterator[Pinned]:
        """Yields source and lake, each as it was at one moment, for the length of the block. Others go on.

        Raises Moving; SessionError when another owner keeps a claim for too long; what `begin` raises.
        """
        owner, known = _owner(), self._lasting(sleep)
        with connect(self.source) as connection:
            with held(self.connector, owner, reason=_REASON) as hold:
                self._await_merged(sleep)
                before = self.connector.client_status()
                end = self._begun(connection, sleep, known)
                lag = self._lag(hold, owner, before, lambda at: reaches(connection, at, end), sleep)
                since = [copies for claim in lag.claims for copies in self._copies(claim, lag, end)]
            yield Pinned(connection, self.lake.open(self.path, lag.state.version), Copies.all(since), lag.place, end)

    def _lasting(self, sleep: Callable[[float], None]) -> frozenset[str]:
        """Returns the source's transactions for which the drain need not wait; call it before a claim is held."""
        with connect(self.source) as connection:
            return lasting(connection, sleep)

    def _begun(
        self, connection: pymysql.Connection[Any], sleep: Callable[[float], None], known: frozenset[str]
    ) -> EntryPosition:
        """Begins a snapshot, and returns its exact place. The drain waits meanwhile, so there is one try."""
        names = self.schema.database, self.schema.table
        return begin(connection, self.source, *names, by_key=False, sleep=sleep, tries=1, known=known).low

    def _lag(
        self,
        hold: Hold,
        owner: str,
        before: ClientStatus,
        is_end: Callable[[EntryPosition], bool],
        sleep: Callable[[float], None],
    ) -> Lag:
        claims = self._claims(hold, owner, is_end, sleep)
        state = self._state(before.epoch)
        place = self._check(hold, claims, before)
        after = max(place.version(), state.applied or 0)
        bound = max(after, self._recurring(claims[0], state) if claims else 0)
        return Lag(claims, state, place, after, bound)

    def _await_merged(self, sleep: Callable[[float], None]) -> None:
        """Waits until a table that lands first has its whole log. Nothing more lands while a claim is held, so it
        reaches the lake's place."""
        follows = Follows(self.lake, self.connector.destination, self.connector.client_id)
        for _ in range(_POLLS):
            if follows.pending(self.schema.name) is None:
                return
            sleep(0.5)
        hint = "Verify again; rows of its log are merged by a run of the job that merges."
        raise Moving("the table does not have its whole change log", place=self.schema.name, hint=hint)

    def _at_source(self, keys: Collection[bytes]) -> dict[bytes, Row | None]:
        found: dict[bytes, Row | None] = dict.fromkeys(keys)
        with connect(self.source) as connection:
            connection.autocommit(True)
            for where in conditions(self.schema, keys):
                batches = read_rows(connection, self.schema, self.zero_dates, where)
                for key, rows in rows_of_keys(batches, self.schema, keys).items():
                    found[key] = Row(*rows[0])
        return found

    def _claims(
        self, hold: Hold, owner: str, is_end: Callable[[EntryPosition], bool], sleep: Callable[[float], None]
    ) -> list[Claim]:
        """Returns all waiting claims, up to the source's end. If no claim is held, nothing may wait."""
        for _ in range(_POLLS):
            read = self.connector.status().position
            if read is not None and is_end(read):
                break
            sleep(0.5)
        else:
            hint = "The backlog is larger than the service's store, or the service does not read. "
            hint += "Verify again when the backlog is smaller."
            raise Moving("the service has not read up to the source's end", place=self.schema.name, hint=hint)
        if hold.claim is None:
            if self.connector.client_status().waiting:
                raise Moving("changes came meanwhile", place=self.schema.name, hint="Verify again.")
            return []
        claims = [hold.claim]
        while not is_end(claims[-1].end):
            claim = self.connector.get_without_ack(_ROWS, owner=owner, lease_seconds=_LEASE_SECONDS)
            if claim is None:
                break
            claims.append(claim)
        return claims

    def _check(self, hold: Hold, claims: list[Claim], before: ClientStatus) -> EntryPosition:
        """Returns the lake's place. Raises Moving if others moved it."""
        hold.check()
        now, name = self.connector.client_status(), self.schema.name
        hint = "Verify again."
        others = {claim.batch_id for claim in now.claims} - {claim.batch_id for claim in claims}
        if now.epoch != before.epoch or now.reached != before.reached or others:
            raise Moving("the destination moved on meanwhile", place=name, hint=hint)
        if any(claim.redefines(name) for claim in claims):
            raise Moving("a statement that changes the table is pending", place=name, hint=hint)
        names = {one for claim in claims for one in claim.table_names}
        if moved := sorted(names & set(self.parents()) if names else ()):
            raise Moving(f"pending changes of {moved[0]} cascade to the table", place=name, hint=hint)
        place = claims[0].start if claims else now.cursor
        if place is None:
            raise Moving("the client has no cursor yet", place=name, hint="Verify again when a batch was acked.")
        return place

    def _state(self, epoch: int) -> TableState:
        client = self.connector
        state = self.lake.state(self.path, app_id(client.destination, client.client_id, self.schema.name, epoch))
        if state is None:
            raise Moving("the lake's table is gone", place=self.path, hint="Verify again.")
        return state

    def _recurring(self, claim: Claim, state: TableState) -> int:
        """Returns the version up to which rows of the lake may come again."""
        apps = [
            app_id(claim.destination, claim.client_id, self.schema.name, epoch)
            for epoch in range(claim.moved, claim.epoch)
        ]
        copied = state.copied.high if state.copied and state.copied.epoch >= claim.moved else 0
        return max([copied, *(version or 0 for version in self.lake.applied(self.path, apps))])

    def _images(self, claim: Claim, after: int, keys: Collection[bytes]) -> Iterator[tuple[bytes, int, Row | None]]:
        """Yields for each change of the keys its version, and the row before it, or None."""
        names, wanted = self.columns.names, pa.array(keys, pa.large_binary())
        for batch in self._changes(claim, after):
            texts = lake_text(batch, self.schema.primary_key)
            chosen = pa.compute.is_in(texts, value_set=wanted)
            part = batch.filter(chosen)
            whole = part.select(names)
            ends, gone = versions(part).tolist(), is_before(part).to_pylist()
            images = zip(texts.filter(chosen).to_pylist(), lake_text(whole, names).to_pylist(), strict=True)
            for number, (key, text) in enumerate(images):
                yield key, ends[number], Row(text, whole.slice(number, 1)) if gone[number] else None

    def _copies(self, claim: Claim, lag: Lag, end: EntryPosition) -> Iterator[Copies]:
        """Yields the rows that a claim added and deleted at the source, up to `end`."""
        for batch in self._changes(claim, lag.after):
            ends = versions(batch)
            if (ends <= lag.bound).any():
                raise _again(self.schema.name)
            times = np.where(np.asarray(is_before(batch)), -1, 1) * (ends <= end.version())
            yield Copies.of(batch.select(self.columns.names), self.columns, times)

    def _changes(self, claim: Claim, after: int) -> Iterator[pa.RecordBatch]:
        if self.schema.name not in {table.name for table in claim.tables}:
            return
        try:
            yield from self.connector.changes(claim, self.schema.name, mode=CHANGES, after=after)
        except DecodeError as error:
            hint = "Stop the writes to the table, then verify again: its row images leave columns out."
            raise Moving(f"its changes cannot be read: {error.message}", place=self.schema.name, hint=hint) from error


def _again(table: str) -> Moving:
    hint = "Verify again when the lake has caught up with the reset."
    return Moving("the source's rows are read again after a reset", place=table, hint=hint)


def _owner() -> str:
    return f"verify-{uuid.uuid4().hex[:12]}"

"""How far each client of a destination is behind its source. Asks the source and the cursors; changes nothing.

It needs no running capture: it also works for a destination that rests or has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_core.contract.fields import fields_of, position_to
from cdc_core.meta.cursors import Cursors
from cdc_core.position import EntryPosition
from cdc_core.source.connection import Connection, connected
from cdc_core.source.journals import Journals, read_journals
from cdc_core.source.settings import SourceSettings
from cdc_core.source.transaction_count import executed_before_journal, transactions_after


@dataclass(frozen=True, slots=True)
class ClientPosition:
    """One client's cursor, and what lies between it and the source's end. None is unknown.

    `purged` says that the source no longer has the cursor's journal, and the store on disk does not have what lies
    behind the cursor either; `kept` that the store has it. `seconds` have passed since the oldest captured transaction
    that is not acked, 0 without one; since the cursor's transaction, which is more, where the destination does not run.
    `files_left` journals are older than the cursor's.
    """

    client_id: int
    epoch: int
    cursor: EntryPosition | None = None
    purged: bool = False
    bytes: int | None = None
    transactions: int | None = None
    seconds: float | None = None
    files_left: int | None = None
    kept: bool = False

    def to_dict(self) -> dict[str, Any]:
        return fields_of(self) | {"cursor": position_to(self.cursor)}


@dataclass(frozen=True, slots=True)
class Positions:
    """`source` is the server's address, `end` its current end, `oldest` the oldest of its `files` journals. `kept` is
    where the store on disk begins; None without one."""

    destination: str
    source: str
    end: EntryPosition
    oldest: str
    files: int
    clients: tuple[ClientPosition, ...]
    kept: EntryPosition | None = None

    def to_dict(self) -> dict[str, Any]:
        return fields_of(self) | {
            "kept": position_to(self.kept),
            "end": self.end.to_dict(),
            "clients": [client.to_dict() for client in self.clients],
        }


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a running capture has: `read` is the end of what it has read, `oldest` the oldest transaction of each client
    that is not acked; None where all is acked."""

    read: EntryPosition
    oldest: Mapping[int, EntryPosition | None]


def positions(
    settings: SourceSettings,
    cursors: Cursors,
    clock: Callable[[], float],
    kept: EntryPosition | None = None,
    waiting: Waiting | None = None,
) -> Positions:
    """The positions of all clients. `clock` is in epoch seconds. Raises SourceError, CursorError."""
    known = {client: cursors.read(client) for client in cursors.clients()}
    with connected(settings) as conn:
        journals = read_journals(conn)
        clients = [
            _client(conn, journals, client, cursors.epoch(client).number, cursor.postion if cursor else None, kept)
            for client, cursor in known.items()
        ]
    now, end = clock(), journals.end
    clients = [replace(client, seconds=_seconds(client, end, waiting, now)) for client in clients]
    return Positions(
        destination=cursors.destination,
        source=settings.address,
        end=journals.end,
        oldest=journals.logs[0].name,
        files=len(journals.logs),
        clients=tuple(clients),
        kept=kept,
    )


def _client(
    conn: Connection,
    journals: Journals,
    client_id: int,
    epoch: int,
    cursor: EntryPosition | None,
    kept: EntryPosition | None,
) -> ClientPosition:
    if cursor is None:
        return ClientPosition(client_id, epoch)
    nbytes = journals.distance(cursor, journals.end)
    transactions = None
    if nbytes is not None:
        transactions = transactions_after(
            cursor.gtid, journals.end.gtid, lambda: executed_before_journal(conn, cursor.journal_name)
        )
    on_disk = kept is not None and kept <= cursor
    return ClientPosition(
        client_id=client_id,
        epoch=epoch,
        cursor=cursor,
        purged=nbytes is None and not on_disk,
        bytes=nbytes,
        transactions=transactions,
        files_left=journals.index(cursor),
        kept=on_disk,
    )


def _seconds(client: ClientPosition, end: EntryPosition, waiting: Waiting | None, now: float) -> float | None:
    since = client.cursor
    if client.bytes == 0:
        return 0.0
    if waiting and client.client_id in waiting.oldest:
        since = waiting.oldest[client.client_id]
        if since is None and waiting.read >= end:
            return 0.0
        since = since or waiting.read  # what comes next is younger
    return max(0.0, now - since.timestamp / 1000) if since and since.timestamp else None

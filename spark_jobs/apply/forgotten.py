"""Stops that the service has lost, with its cursors or otherwise, and the lake still knows.

The ledger notes the batch at which a table stopped, or the first one that a paused table missed. If changes of the
table passed since, and the service does not list the stop any more, the table would go on without them.
"""

from __future__ import annotations

from collections.abc import Collection

from cdc_core.contract.claim import Claim, is_redefined
from cdc_core.errors import TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.apply.result import Refusal
from spark_jobs.lake.ledger import Ledger, StopNote, TableNote
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import LOG, app_id, log_app_id
from spark_jobs.lake.tables import Lake


def forgotten_stops(ledger: Ledger, claim: Claim) -> tuple[Refusal, ...]:
    """The tables whose last batch in the ledger is the one that they stopped at, which are not stopped any more, and
    whose changes of that batch neither are in the lake nor come again."""
    lake, found = ledger.lake, []
    for table, note in sorted(ledger.stops().items()):
        again = claim.moved <= note.epoch and claim.start.version() < note.version
        if table in claim.stopped or again:
            continue
        path, app = _written(lake, claim, table, note.epoch)
        if _is_newer(lake, path, note):
            continue
        (applied,) = lake.applied(path, [app])
        if applied is None or applied < note.version:
            message = "its changes were acked while it was stopped, and the stop is gone: the lake lacks them"
            error = TableStopped(message, place=path, hint=copy_hint(claim.destination, table))
            found.append(Refusal(table, error, copy_needed=True))
    return tuple(found)


def unnoted_stops(ledger: Ledger, claim: Claim, noted: Collection[str]) -> dict[str, TableNote]:
    """Returns the ledger's notes for stopped tables with changes in the claim, except the tables of `noted`: this is
    the first batch that they miss. A table that stops in a run is noted by that run, a paused table is not."""
    missed = [name for name in claim.stopped if name not in noted and is_redefined(name, claim.table_names)]
    known = ledger.stops() if missed else {}
    return {
        name: TableNote(stopped=True)
        for name in missed
        if name not in known or _is_newer(ledger.lake, ledger.lake.path(*split_name(name)), known[name])
    }


def _written(lake: Lake, claim: Claim, table: str, epoch: int) -> tuple[str, str]:
    """Where the table's changes are, and the app id that says how far: in its change log where it has that alone."""
    path, log = lake.path(*split_name(table)), lake.log_path(*split_name(table))
    owner = (claim.destination, claim.client_id, table, epoch)
    if lake.origin(path) is None and (there := lake.state(log, "")) is not None and LOG in there.properties:
        return log, log_app_id(*owner)
    return path, app_id(*owner)


def _is_newer(lake: Lake, path: str, note: StopNote) -> bool:
    """Whether the lake has no such table, or one that was made since the note."""
    origin = lake.origin(path)
    return origin is None or origin.is_after(note.committed_at, (note.epoch, note.version))

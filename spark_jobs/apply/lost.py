"""Tables with rows of transactions that the present server lacks.

A batch may be applied and not acked when its server dies. The service moves to another server that has everything up to
the cursor, but what the batch had beyond it may be lost: such rows would stay in the lake for ever. The commits' user
metadata names the transactions. They are asked for once, before the first batch from another server. Without GTIDs this
cannot be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_core.contract.claim import Claim
from cdc_core.errors import TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.apply.result import Refusal
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import LOG
from spark_jobs.lake.tables import Lake

_LOOKS = 5  # a server that was just promoted may still apply what it has received
_PAUSE = 1.0  # seconds between two looks


def lost_rows(
    lake: Lake, claim: Claim, tables: Iterable[str], missing: Callable[[str], str], sleep: Callable[[float], None]
) -> tuple[Refusal, ...]:
    """Returns the `tables` whose last commit, of an earlier server, has transactions that the present server lacks.
    `missing` returns the GTIDs of a set that it lacks."""
    asked: dict[str, str] = {"": ""}
    refused = []
    for table in sorted(set(tables)):
        path = lake.path(*split_name(table))
        found = {_gtids(lake, path, claim), _gtids_of_log(lake, table, claim)}
        for gtids in found - asked.keys():
            asked[gtids] = _missing_for_good(gtids, missing, sleep)
        if lost := ",".join(sorted({asked[gtids] for gtids in found} - {""})):
            message = f"its rows of the transactions {lost} are lost at the source: the present server lacks them"
            error = TableStopped(message, place=path, hint=copy_hint(claim.destination, table))
            refused.append(Refusal(table, error, copy_needed=True))
    return tuple(refused)


def _gtids(lake: Lake, path: str, claim: Claim, since: int = 0) -> str:
    """Returns the GTIDs in the last commit of a table. They are "" if there is no table, a copy made the commit, it is
    of an epoch before `since`, or it was written since reading moved to the present server."""
    try:
        for commit in lake.commits(path):
            note = commit.note
            if "epoch" in note and (note.get("destination"), note.get("client_id")) == (
                claim.destination,
                claim.client_id,
            ):
                return str(note.get("gtid") or "") if since <= note["epoch"] < claim.moved else ""
    except TableNotFoundError:
        pass
    return ""


def _gtids_of_log(lake: Lake, table: str, claim: Claim) -> str:
    """Returns the same of the table's change log, whose changes beyond the cursor are merged later. A damaged log stops
    its table when it is written."""
    since = 0  # rows of epochs before a copy of the table no longer count
    with suppress(TableStopped):
        state = lake.state(lake.path(*split_name(table)), "")
        since = state.copied.epoch if state and state.copied else 0
    with suppress(DeltaError, TableStopped):
        path = lake.log_path(*split_name(table))
        log = lake.state(path, "")
        return _gtids(lake, path, claim, since) if log is not None and LOG in log.properties else ""
    return ""


def _missing_for_good(gtids: str, missing: Callable[[str], str], sleep: Callable[[float], None]) -> str:
    lost = missing(gtids)
    for _ in range(_LOOKS - 1):
        if not lost:
            break
        sleep(_PAUSE)
        lost = missing(gtids)
    return lost

"""A landed table is compared when it has its whole log: until then it is behind the cursor, and not wrong."""

from __future__ import annotations

from collections.abc import Callable

from cdc_core.errors import LakeError
from spark_jobs.following.parked import Parking
from spark_jobs.following.pending import Follows, opened


def await_merged(follows: Follows, table: str, in_time: Callable[[], bool], sleep: Callable[[float], None]) -> None:
    """Waits until the table has its whole log; returns at once for a table without one.

    Raises LakeError when that is not in time, with the reason of its last failure; and for a table that has a log
    alone.
    """
    while (pending := follows.pending(table)) is not None:
        if not in_time():
            raise _behind(follows, table, pending.rows)
        sleep(0.5)
    landed = opened(follows.lake, follows.log_path(table)) is not None
    if landed and follows.lake.state(follows.path(table), "") is None:
        hint = "Set its mode to merge or land_first to have a table that can be compared."
        raise LakeError("its changes are in its log alone", place=table, hint=hint)


def _behind(follows: Follows, table: str, rows: int) -> LakeError:
    parked = Parking(follows.lake, follows.destination, follows.client_id).tables().get(table)
    message = f"{rows} rows of its change log are not merged"
    if parked is None:
        return LakeError(message, place=table, hint="Does Dagster run the job that merges? Give more time (--timeout).")
    return LakeError(f"{message}, because {parked.reason}", place=table, hint=parked.hint)

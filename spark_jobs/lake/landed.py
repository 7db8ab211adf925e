"""How far the change log of a table is, by Delta's log alone. `landing` writes it."""

from __future__ import annotations

from cdc_core.errors import TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.lake.state import DESTINATION, LOG, TABLE, log_app_id
from spark_jobs.lake.tables import Lake


def landed_ends(lake: Lake, destination: str, client_id: int, table: str, upto: int) -> dict[int, int]:
    """By epoch up to `upto`, the version up to which the log has the table's changes; nothing without a log that can be
    read. Raises LakeError."""
    apps = [log_app_id(destination, client_id, table, epoch) for epoch in range(upto + 1)]
    try:
        states = lake.states(lake.log_path(*split_name(table)), apps)
    except TableStopped:
        return {}
    wanted = {DESTINATION: destination, TABLE: table, LOG: "true"}
    if not states or not wanted.items() <= states[0].properties.items():
        return {}
    return {epoch: state.applied for epoch, state in enumerate(states) if state.applied is not None}

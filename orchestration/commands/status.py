"""`sluice status`: what every destination does; `sluice destination`: one started, stopped or reloaded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from rich.console import Console
from rich.text import Text

from cdc_core.contract.snapshot import FIRST_START, Snapshot
from cdc_core.contract.stages import shown
from cdc_core.contract.status import Status
from cdc_core.errors import naming
from orchestration.commands.service import call, path_of
from orchestration.commands.text import number, place, position, print_error, table, text

MOST = 20  # stopped tables of a destination that are shown


def run(service: str, token: str, *, as_json: bool, lake: str | None = None) -> int:
    """1 when a destination has failed. Rows that wait in quarantines are counted in the lake, or else shown as the runs
    reported them."""
    found = statuses(service, token)
    rows = {status.destination: waiting(lake, status) for status in found} if lake else {}
    if as_json:
        quarantined = ({"quarantined": rows[status.destination]} if rows else {} for status in found)
        print(json.dumps([status.to_dict() | more for status, more in zip(found, quarantined, strict=True)]))
    else:
        show(found)
        for status in found:
            show_quarantined(status.destination, rows.get(status.destination, reported(status)))
    return 1 if any(status.error for status in found) else 0


def statuses(service: str, token: str = "") -> list[Status]:
    """Returns the statuses of all destinations. Raises ServiceUnavailable, AccessDenied."""
    return [Status.from_dict(fields) for fields in call(service, token, "GET", "/v1/destinations")]


def waiting(root: str, status: Status) -> dict[str, int]:
    """Returns how many rows wait, by table; only tables of which some do. Raises LakeError."""
    from spark_jobs.apply.waiting_rows import WaitingRows
    from spark_jobs.lake.tables import Lake

    lake, found = Lake(root), dict[str, int]()
    for client_id, epoch in [(one.client_id, one.epoch) for one in status.clients] or [(0, 0)]:
        found |= WaitingRows(lake, status.destination, client_id, epoch).counts()
    return {name: count for name, count in sorted(found.items()) if count}


def reported(status: Status) -> dict[str, int]:
    """Returns the same as the service knows it by the reports of the runs."""
    return {name: count for client in status.clients for name, count in client.quarantined.items()}


def show_quarantined(destination: str, rows: Mapping[str, int]) -> None:
    """Prints a line for each table with rows that wait, and what to do."""
    for name, count in sorted(rows.items()):
        print(f"{name}: {count:,} rows wait in its quarantine (sluice requeue|drop {destination} {name})")


def switch(verb: Literal["start", "stop", "reload"], name: str, service: str, token: str, *, as_json: bool) -> int:
    """0 when the service has done it. A destination that fails after its start shows so in `sluice status`."""
    status = Status.from_dict(call(service, token, "POST", f"{path_of(name)}/{verb}"))
    if as_json:
        print(json.dumps(status.to_dict()))
    else:
        show([status])
    return 0


def show(found: Sequence[Status]) -> None:
    """Prints a table: two lines a destination, the second with its source."""
    console = Console()
    columns = table(text("destination"), text("state"), position("position"), number("lag"), number("backlog"))
    for status in found:
        columns.add_row(
            Text.assemble((status.destination, "bold"), f"\n {_source(status)}"),
            Text(status.note or status.state),
            place(status.position),
            _quantity(status.lag_seconds, " s"),
            _quantity(status.backlog_rows, " rows"),
        )
    console.print(columns)
    for status in found:
        if where := shown(status.stages):
            console.print(Text(f"{status.destination}, seconds of the last minute: {where}"))
    for snapshot in (one for status in found for client in status.clients for one in client.snapshots):
        console.print(Text(snapshot_line(snapshot)))
    for status in found:
        stops = [stop for client in status.clients for stop in client.halted]
        for stop in stops[:MOST]:
            console.print(Text(f"{stop.table} is {stop.kind}: {stop.reason}. {naming(stop.hint, status.destination)}"))
        if len(stops) > MOST:
            console.print(Text(f"{len(stops) - MOST:,} more tables of {status.destination} are stopped"))
    for status in found:
        if status.error:
            print_error(console, status.destination, status.error.as_error())


def snapshot_line(snapshot: Snapshot) -> str:
    """The progress of the snapshot of one table."""
    if snapshot.broken:
        return f"{snapshot.table}: the snapshot of {snapshot.owner} begins again: {snapshot.broken}"
    if snapshot.owner == FIRST_START:
        return f"{snapshot.table}: the rows of before the capture wait for the run that reads them"
    done, of = snapshot.progress.groups, snapshot.progress.of_groups
    return f"{snapshot.table}: {snapshot.owner} reads it, {done}{f' of about {of}' if of else ''} groups of chunks done"


def _source(status: Status) -> str:
    detected = status.source.detected
    return f"{status.source.address or ''}{' (standby)' if detected and detected.role == 'standby' else ''}"


def _quantity(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"

"""Sets the cursor of a destination to another place; reports first what that means.

The service sets the cursor whole or not at all, also when it is killed meanwhile. Done twice, rows are repeated from
the same place, and the lake leaves out what it has or merges it by the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdc_core.client.connector import Connector
from cdc_core.client.operator_calls import ResetResult
from cdc_core.errors import ConfigError, PositionError
from orchestration.verbs.access import Access
from orchestration.verbs.orders import WHOLE, Reset
from orchestration.verbs.report import Done, Report

if TYPE_CHECKING:
    from spark_jobs.lake.ledger import Begun


def run(order: Reset, at: Access, report: Report) -> None:
    with at.connect() as connector:
        report.one(WHOLE, lambda: _rewound(order, at, connector, report), "store")


def _rewound(order: Reset, at: Access, connector: Connector, report: Report) -> Done:
    begun = _begun(order, at)
    to = {"journalName": begun.position.journal_name, "position": begun.position.position} if begun else order.to
    assert to is not None
    fields: dict[str, Any] = {
        "client_id": None if order.all_clients else at.client_id,
        "moved": order.moved,
        "epoch": order.epoch,
        "identity": order.identity,
        "of_epoch": begun.epoch if begun else None,
    }
    answer = connector.by_hand.reset(to, **fields)
    if not order.dry_run:
        _check_skipped(answer, may=order.skip or order.anew)
        answer = connector.by_hand.reset(to, **fields, dry_run=False)
        for table in answer.anew:
            report.stopped(table, str(answer.to))
    return Done(text(answer), facts(answer))


def _begun(order: Reset, at: Access) -> Begun | None:
    """Returns the start of the batch or run that the order names, or None if it names none. Raises ConfigError for one
    that the lake does not have."""
    if order.batch is None and order.materialized_by is None:
        return None
    from spark_jobs.lake.ledger import Ledger

    ledger = Ledger(at.lake, at.destination, at.client_id)
    if order.batch is not None:
        found, what = ledger.begun_by_batch(order.batch), f"batch {order.batch}"
    else:
        found, what = ledger.begun_by_run(order.materialized_by or ""), f"a batch of run {order.materialized_by}"
    if found is None:
        hint = (
            "Look at batch_id and run_id in the metadata of a table's materializations, or give their start_position."
        )
        raise ConfigError(f"the lake has no {what}", place=ledger.path, hint=hint)
    return found


def _check_skipped(answer: ResetResult, *, may: bool) -> None:
    """Raises PositionError for a place ahead of the cursor, unless rows may be skipped."""
    skipped = sum(move.skipped_bytes or 0 for move in answer.clients)
    if skipped and not may:
        raise PositionError(
            f"the place is ahead of the cursor: {skipped:,} bytes of binlog would be skipped, and nothing was done",
            place=str(answer.to),
            hint="The lake would never get these changes. If that is wanted, set `skip` (--skip) as well.",
        )


def facts(answer: ResetResult) -> dict[str, Any]:
    """For programs and metadata: of one client in the facts themselves, of several in `clients`. Bytes that are not
    known are left out."""
    moves = []
    for move in answer.clients:
        known = {"again_bytes": move.again_bytes, "skipped_bytes": move.skipped_bytes}
        found = {"client_id": move.client_id, "from": str(move.old or "none"), "other_server": move.moved}
        moves.append(found | {name: value for name, value in known.items() if value is not None})
    of_clients = moves[0] if len(moves) == 1 else {"clients": moves}
    anew = {"anew": ", ".join(answer.anew)} if answer.anew else {}
    return {"destination": answer.destination, "to": str(answer.to), "done": answer.done} | of_clients | anew


def text(answer: ResetResult) -> str:
    """For people, a line for each client."""
    lines = [f"to {answer.to}"]
    for move in answer.clients:
        again, skipped = _bytes(move.again_bytes), _bytes(move.skipped_bytes)
        lines.append(f"client {move.client_id} from {move.old or '-'}: {again} read again, {skipped} skipped")
    if answer.anew:
        after = "are" if answer.done else "would be"
        lines.append(f"These tables {after} stopped until `sluice snapshot {answer.destination}` reloads them:")
        lines.append(", ".join(answer.anew))
    elif any(move.skipped_bytes for move in answer.clients):
        lines.append("Skipped changes are never read: they will be missing in the lake.")
    if any(move.moved for move in answer.clients):
        lines.append("The source is another server: tables without a primary key will stop.")
    lines.append("Done: the destination continues from there." if answer.done else "Nothing was done.")
    return "\n".join(lines)


def _bytes(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,} bytes"

"""Sets the lake and the cursor back to one place: the cursor first, then each table in one commit.

It may be killed and run again. The cursor is set whole or not at all; from then on the lake is as after any rewind, and
a table that is not restored yet is right again when reading has come to where it was. If a run goes on from the place
meanwhile, the cursor is set once more, and the tables are restored again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from cdc_core.client.connector import Connector
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.reached import How
from cdc_core.errors import SessionError, SluiceError, SourceUnavailable
from cdc_core.position import EntryPosition
from orchestration.names import PLACE, place_text
from orchestration.verbs import reset
from orchestration.verbs.access import Access
from orchestration.verbs.correcting import check_reason, corrections_of, tables_of
from orchestration.verbs.orders import WHOLE, Restore
from orchestration.verbs.report import Done, Report
from orchestration.verbs.waiting import report_waiting
from spark_jobs.as_of.as_of import TablesAsOf
from spark_jobs.as_of.choice import Chosen
from spark_jobs.lake.corrections import CorrectedTable, Correction, Corrections
from spark_jobs.landing.parked import Parking
from spark_jobs.load.hold import Hold, held
from spark_jobs.load.result import WentOn
from spark_jobs.past.asked import asked_position
from spark_jobs.undo.restore import LakePlace, Restorer

_START_SECONDS = 60.0  # until the destination has started at the place
_LOOK_SECONDS = 0.2
_TRIES = 5  # while runs are faster
_WAIT_SECONDS = 20.0  # until the service hands out what comes after the place


class RunWentOn(SessionError):
    """A run has acked, or may have applied, changes after the place since the cursor was set there."""


def run(order: Restore, at: Access, report: Report) -> None:
    with at.connect() as connector, at.sessions() as sessions:
        restorer = Restorer(tables_of(at), sessions, at.run_id)
        found = restorer.plan(order.to)
        position = asked_position(found.position)
        if order.dry_run:
            report.one(WHOLE, lambda: _shown(connector, at, found, position), "store")
            return
        check_reason(report)
        epoch, version = found.place.server, position.version()
        about = Correction("restore", epoch, version, version, order.to, report.reason, at.run_id)
        numbered = corrections_of(at).asked(about, datetime.now(UTC))
        restorer = Restorer(restorer.tables, sessions, at.run_id, numbered.number)
        report.one(WHOLE, lambda: _set_back(connector, at, found, position), "store")
        made = _until_still(connector, at, restorer, numbered, found, report)
        for table, outcome in made.items():
            report.each(table, outcome)


def _until_still(
    connector: Connector, at: Access, restorer: Restorer, correction: Correction, found: TablesAsOf, report: Report
) -> dict[str, Callable[[], Done]]:
    """Restores the tables, and sets the cursor once more whenever a run went on from the place meanwhile. Returns by
    table what gives the outcome, or raises its error. Raises RunWentOn, WentOn if runs are always faster."""
    position = asked_position(found.position)
    for left in reversed(range(_TRIES)):
        try:
            return _tables(connector, restorer, correction, found, position, report)
        except (RunWentOn, WentOn):
            if not left:
                raise
        report.progress("a run went on from the place: the cursor is set once more")
        _set_back(connector, at, found, position, again=True)
    raise AssertionError("unreachable")


def _tables(
    connector: Connector,
    restorer: Restorer,
    correction: Correction,
    found: TablesAsOf,
    position: EntryPosition,
    report: Report,
) -> dict[str, Callable[[], Done]]:
    """Restores the tables while a claim is held. Raises RunWentOn, WentOn if a run was faster."""
    place = LakePlace(_begun_epoch(connector), position)
    owner, made = f"restore-{uuid.uuid4().hex[:8]}", dict[str, Callable[[], Done]]()
    with held(connector, owner, reason="the lake was restored", wait=_WAIT_SECONDS) as hold:
        _check_still_there(connector, hold, place)
        for chosen in found.tables.values():
            report.progress(f"{chosen.table} is restored")
            try:
                done = _restored(restorer, connector, correction, chosen, place, hold, report)
            except (RunWentOn, WentOn):
                raise
            except Exception as error:  # whatever it is, the next table may do well
                made[chosen.table] = partial(_raised, error)
            else:
                made[chosen.table] = partial(_same, done)
    return made


def _same(done: Done) -> Done:
    return done


def _raised(error: Exception) -> Done:
    raise error


def _shown(connector: Connector, at: Access, found: TablesAsOf, position: EntryPosition) -> Done:
    answer = connector.by_hand.reset(_to(position), client_id=at.client_id, of_epoch=found.place.server)
    lines = [reset.text(answer).removesuffix("\nNothing was done."), *_lines(found), "Nothing was done."]
    return Done("\n".join(lines), reset.facts(answer) | _facts(found) | {"dry_run": True})


def _set_back(
    connector: Connector, at: Access, found: TablesAsOf, position: EntryPosition, *, again: bool = False
) -> Done:
    """Sets the cursor, unless it is there in an epoch of which the lake has nothing yet, as a killed run leaves it.
    `again`: in any case, because a run may have written tables in that epoch."""
    status, ledger = connector.client_status(), tables_of(at).ledger
    if not again and status.cursor == position and ledger.last_epoch(ledger.opened()) < status.epoch:
        return Done(f"the cursor is at {position} already", {"to": str(position), "done": True} | _facts(found))
    of_epoch = found.place.server
    answer = connector.by_hand.reset(_to(position), client_id=at.client_id, of_epoch=of_epoch, dry_run=False)
    return Done("\n".join([reset.text(answer), *_lines(found)]), reset.facts(answer) | _facts(found))


def _begun_epoch(connector: Connector) -> int:
    """Returns the epoch that begins at the place, once the destination has started there. Raises SourceUnavailable if
    it does not within a minute."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return connector.client_status().epoch
        except SourceUnavailable as error:
            if time.monotonic() > deadline:
                hint = "The cursor is set. When the destination runs, run the same again: the tables follow."
                raise SourceUnavailable(error.message, place=connector.destination, hint=hint) from error
        time.sleep(_LOOK_SECONDS)


def _check_still_there(connector: Connector, hold: Hold, place: LakePlace) -> None:
    """Raises RunWentOn if a run has acked changes after the place meanwhile, or has claimed some."""
    if went_on(connector.client_status(), place, hold.claim.batch_id if hold.claim else None):
        hint = "Run it again: the cursor is set once more. In Dagster the job takes turns with the runs that drain."
        raise RunWentOn("a run went on from the place", place=str(place.position), hint=hint)


def went_on(status: ClientStatus, place: LakePlace, held_batch: int | None) -> bool:
    """Whether a run has acked changes after the place, or may have applied some, because another batch than the held
    one is claimed. A table that the run left alone does not show it: one without a key, where rows come again. Pure."""
    claimed = [claim.batch_id for claim in status.claims]
    if status.epoch != place.epoch or claimed != ([] if held_batch is None else [held_batch]):
        return True
    reached = status.reached
    if reached is None:
        return status.cursor != place.position
    return (reached.how, reached.epoch) == (How.BATCH, place.epoch)


def _restored(
    restorer: Restorer,
    connector: Connector,
    correction: Correction,
    chosen: Chosen,
    place: LakePlace,
    hold: Hold,
    report: Report,
) -> Done:
    tables, table = restorer.tables, chosen.table
    with Parking(tables.lake, tables.destination, tables.client_id).turn(table):
        _check_still_there(connector, hold, place)
        made = restorer.table(chosen, place)
        _check_still_there(connector, hold, place)
    facts: dict[str, Any] = {"from": chosen.version, "delta_version": made.version, "number": correction.number}
    facts[PLACE] = place_text(place.epoch, place.note.low)
    done = CorrectedTable(correction, table, "done", made.version, {"epoch": place.epoch, "at": place.note.low})
    corrections = Corrections(tables.lake, tables.destination, tables.client_id)
    corrections.note(done, datetime.now(UTC))
    if made.version is None:
        return Done("was there already", facts)
    Parking(tables.lake, tables.destination, tables.client_id).free(table)
    with suppress(SluiceError):  # not stopped; or stopped before the place, which its stop goes on to say
        if any(stop.table == table for stop in connector.client_status().stopped):
            connector.lift_stop(table)
    report_waiting(connector, tables.lake, table, report)
    return Done(f"restored from version {chosen.version}, in version {made.version}", facts, reloaded=True)


def _to(position: EntryPosition) -> dict[str, Any]:
    return {"journalName": position.journal_name, "position": position.position}


def _facts(found: TablesAsOf) -> dict[str, Any]:
    return {"tables": {name: one.version for name, one in found.tables.items()}, "absent": dict(found.absent)}


def _lines(found: TablesAsOf) -> list[str]:
    lines = [
        f"{name}: version {one.version}" + (", and later rows of its change log" if one.later else "")
        for name, one in found.tables.items()
    ]
    return [*lines, *(f"{name}: stays as it is, {why}" for name, why in found.absent.items())]

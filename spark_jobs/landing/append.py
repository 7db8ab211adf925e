"""Appends one table's share of a claim to its change log, in one commit of delta-rs.

The commit carries the claim's end. Rows up to the last end are left out, so a claim may come again with other
boundaries, and an append whose answer was lost is found. A run fences each log once: an append that began on a log
which another run has fenced or written since is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, SchemaMismatchError
from deltalake.schema import Schema

from cdc_core.client.changes import PlanCounts, RowsDoor, TableRead
from cdc_core.contract.claim import Claim
from cdc_core.errors import LakeError, SluiceError, TableStopped
from cdc_core.rows.system_columns import CHANGES
from spark_jobs.changes.log_images import Emptied, LogImages, log_schema, own_fields
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.properties import set_properties
from spark_jobs.lake.record import LOG_BEGAN, app_versions, epoch_property
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.seen_columns import changed_rules, check_added, ruled_columns
from spark_jobs.lake.spool import spooled
from spark_jobs.lake.state import DESTINATION, FENCE, KEPT_LOG, LOG, TABLE
from spark_jobs.lake.statistics import exact_statistics
from spark_jobs.lake.types import lake_columns
from spark_jobs.landing.definition import DEFINITION, STATISTICS, definition_of, log_properties, statistics
from spark_jobs.landing.evolution import Evolution, evolution
from spark_jobs.landing.log import OpenedLog, TableLog
from spark_jobs.landing.whole import began, lacking

_COMPACT_EVERY = 100  # commits: each leaves a file, or a few
_TRIES = 3  # a try is lost to rows of the log that are deleted meanwhile, which delta-rs takes for read
_ROOM = "Make the lake writable and give it room; the batch stays claimable."


class Refused(LakeError):
    """The commit was refused, because another one came after the state of the log on which it began."""


@dataclass(frozen=True, slots=True)
class Landed:
    """The outcome of one table's share of a claim. `end`: the version up to which its log has the epoch's changes, or
    None. `images`: rows that this try appended. `counts` are the service's. `begun_anew`: why the log was started
    again, or ""; `no_history`: why the table has no history, though it should have one."""

    table: str
    end: int | None
    images: int = 0
    counts: PlanCounts = field(default_factory=PlanCounts)
    log_version: int | None = None
    replayed: bool = False
    created: bool = False
    added_columns: tuple[str, ...] = ()
    begun_anew: str = ""
    no_history: str = ""
    seconds: float = 0.0
    landed_at: float = 0.0


@dataclass(frozen=True, slots=True)
class LandingTask:
    """One table's share of a claim, and all that landing needs. `after`: rows up to this version are left out, besides
    the rows that the log has. `emptied`: statements of the claim that deleted all rows. `has_rows`: the claim has other
    rows of it too. `past`: by epoch, the version up to which changes went past the log. `merge_all` merges the changes
    that the log has and the table lacks, before the log starts again; None for a table that is not merged."""

    claim: Claim
    log: TableLog
    door: RowsDoor
    run_id: str
    fence: Fence
    clock: Callable[[], float]
    after: int | None = None
    emptied: Sequence[Emptied] = ()
    has_rows: bool = True
    past: Mapping[int, int] = field(default_factory=dict)
    merge_all: Callable[[], None] | None = None


def append(share: LandingTask) -> Landed:
    """Lands the share. Raises TableStopped for an error of this table, LakeError if the lake cannot be written, and
    what Flight raises."""
    for _ in range(_TRIES - 1):
        with suppress(Refused):
            return _append(share)  # the next try finds out whether it was another run
    return _append(share)


def _append(share: LandingTask) -> Landed:
    began = time.perf_counter()
    opened, epoch = enter(share), share.claim.epoch
    end = opened.end(epoch) if opened else None
    if opened and end is not None and end >= share.claim.end.version():
        return Landed(share.log.name, end, log_version=opened.version, replayed=True, landed_at=share.clock())
    after = max((one for one in (end, share.after) if one is not None), default=None)
    emptied = [one for one in share.emptied if one.position.version() > (after or 0)]
    if opened is None or not opened.ends(epoch):
        emptied = []  # nothing was there
    if not share.has_rows:
        if opened is None or not emptied:
            return Landed(share.log.name, end, log_version=opened.version if opened else None, landed_at=share.clock())
        ready = _saying(share, opened, epoch_property(share.claim))
        images = LogImages(share.claim, _fields(ready.table), None, None, emptied)
        return _committed(share, ready, images, after, Landed(share.log.name, None), began)
    with share.door.connect() as rows:
        read = rows.info(share.claim, share.log.name, mode=CHANGES, after=after)
        if not read.rows and not emptied:
            return Landed(share.log.name, end, log_version=opened.version if opened else None, landed_at=share.clock())
        ready, landed = _ready(share, opened, read)
        images = LogImages(share.claim, _fields(ready.table), read, rows, emptied)
        return _committed(share, ready, images, after, landed, began)


def enter(share: LandingTask) -> OpenedLog | None:
    """Returns the log, which only this run changes from now on, or None if there is no log."""
    log, fence = share.log, share.fence
    opened = log.open()
    if opened is None:
        return None
    opened.check_owner()
    if not fence.entered(log.path):
        app = log.app(share.claim.epoch)
        if (state := log.lake.state(log.path, app)) is not None:
            fence.enter(log.path, app, state)
        opened = log.open()
    if opened is not None and opened.fence != fence.token:
        hint = "No action needed: the run that has the claim now writes this log."
        message = "another run has taken the change log over, so this run lost its claim"
        raise LakeError(message, place=log.path, hint=hint)
    return opened


def _ready(share: LandingTask, opened: OpenedLog | None, read: TableRead) -> tuple[OpenedLog, Landed]:
    """Returns the log with the columns of the read, and how it changed for that."""
    log, lake_types = share.log, lake_columns(read.schema, read.table)
    assert lake_types  # raises for names that no Delta table can have
    if opened is None:
        _written(log, lambda: _create(share, read, log_schema(read.schema)))
        share.fence.skip(log.path)
        return _there(log), Landed(log.name, None, counts=read.counts, created=True)
    noted = ruled_columns(opened.definition) if DEFINITION in opened.properties else {}
    changed = changed_rules(noted, {column.name for column in opened.columns}, read.table)
    found = Evolution(anew=changed) if changed else evolution(opened.columns, own_fields(read.schema))
    if found.anew:
        if share.merge_all is not None:
            share.merge_all()
        _written(log, lambda: _begin_anew(share, opened, read))
        why = f"{found.anew}; its earlier rows are in its version {opened.version}"
        return _described(share, _there(log), read), Landed(log.name, None, counts=read.counts, begun_anew=why)
    if share.merge_all is not None and _is_redefined(opened, read):
        share.merge_all()  # the log's rows that are not merged yet have the earlier definition
    ready = opened
    check_added(noted, {one.name for one in found.added}, read.table)
    if found.added:
        fields = Schema.from_arrow(pa.schema(found.added)).fields
        _written(log, lambda: opened.table.alter.add_columns(fields))
        ready = _there(log)
    ready = _described(share, ready, read)
    return ready, Landed(log.name, None, counts=read.counts, added_columns=tuple(one.name for one in found.added))


def _is_redefined(opened: OpenedLog, read: TableRead) -> bool:
    return definition_of(opened.properties, opened.log.path).version != read.table.version


def _saying(share: LandingTask, opened: OpenedLog, wanted: Mapping[str, str]) -> OpenedLog:
    """Returns the log with these properties."""
    changed = {name: text for name, text in wanted.items() if opened.properties.get(name) != text}
    if not changed:
        return opened
    _written(share.log, lambda: set_properties(opened.table, changed))
    return _there(share.log)


def _described(share: LandingTask, opened: OpenedLog, read: TableRead) -> OpenedLog:
    """Returns the log with the properties that its next rows need."""
    kept = statistics(read.table, _fields(opened.table))
    return _saying(share, opened, log_properties(share.claim, read.table) | {STATISTICS: kept})


def _create(share: LandingTask, read: TableRead, schema: pa.Schema) -> None:
    log = share.log
    properties = {DESTINATION: log.destination, TABLE: log.name, LOG: "true", FENCE: share.fence.token}
    properties |= {"delta.logRetentionDuration": KEPT_LOG}
    properties |= log_properties(share.claim, read.table) | {STATISTICS: statistics(read.table, schema)}
    properties[LOG_BEGAN] = began(log, share.claim.epoch).to_json()
    DeltaTable.create(
        log.path,
        schema,
        configuration=properties,
        storage_options=log.lake.storage or None,
        raise_if_key_not_exists=False,
    )


def _begin_anew(share: LandingTask, opened: OpenedLog, read: TableRead) -> None:
    """Empties the log, and gives it the columns of the read; its ends and its history stay. From here on it is whole
    only after its ends."""
    nothing = log_schema(read.schema).empty_table()
    storage = share.log.lake.storage or None
    noted = CommitProperties(app_transactions=app_versions(lacking(share.log, opened.ends(share.claim.epoch))))
    write_deltalake(
        opened.table, nothing, mode="overwrite", schema_mode="overwrite", storage_options=storage,
        commit_properties=noted,
    )  # fmt: skip


def _there(log: TableLog) -> OpenedLog:
    opened = log.open()
    if opened is None:
        hint = "Find out what removes its folder; the batch stays claimable."
        raise LakeError("the change log is gone again", place=log.path, hint=hint)
    return opened


def _fields(table: DeltaTable) -> list[pa.Field]:
    return list(pa.schema(table.schema().to_arrow()))


def _committed(
    share: LandingTask, opened: OpenedLog, images: LogImages, after: int | None, landed: Landed, began: float
) -> Landed:
    log, claim = share.log, share.claim
    end = claim.end.version()
    note = _note(share, landed.counts, after)
    properties = CommitProperties(
        app_transactions=app_versions({log.app(claim.epoch): end} | lacking(log, share.past)),
        custom_metadata={"userMetadata": note},
    )
    storage = log.lake.storage or None

    def write() -> None:
        how = exact_statistics(images.schema)
        with spooled(images.schema, images) as rows:
            write_deltalake(
                opened.table, rows, mode="append", storage_options=storage, writer_properties=how,
                commit_properties=properties,
            )  # fmt: skip

    _written(log, write)
    _check_count(log, opened.table, note, images.count)
    _compact(opened.table)
    return Landed(
        log.name, end, images.count, landed.counts, int(opened.table.version()), created=landed.created,
        added_columns=landed.added_columns, begun_anew=landed.begun_anew,
        seconds=time.perf_counter() - began, landed_at=share.clock(),
    )  # fmt: skip


def _note(share: LandingTask, counts: PlanCounts, after: int | None) -> str:
    """Returns Delta's user metadata of an append, as JSON, with the same fields as in the merged table's commits."""
    claim = share.claim
    fields = {"destination": claim.destination, "client_id": claim.client_id, "epoch": claim.epoch}
    fields |= {"table": share.log.name, "batch_id": claim.batch_id, "run_id": share.run_id, "after": after}
    fields |= {"gtid": str(claim.end.gtid or ""), "start": str(claim.start), "end": str(claim.end)}
    return json.dumps(fields | {"low": claim.start.version(), "version": claim.end.version(), "landed": asdict(counts)})


def _written(log: TableLog, write: Callable[[], None]) -> None:
    """Writes. Raises the service's own error, TableStopped for an error that this log causes, LakeError for an error
    that may pass."""
    try:
        write()
    except SluiceError:
        raise
    except Exception as error:
        words = first_line(error)
        if isinstance(error, SchemaMismatchError | DeltaProtocolError):
            message = f"its change log cannot take its rows: {words}"
            raise TableStopped(message, place=log.path, hint=copy_hint(log.destination, log.name)) from error
        if isinstance(error, CommitFailedError):
            hint = "Another run wrote it at the same time; the batch stays claimable."
            raise Refused(f"changes cannot be landed: {words}", place=log.path, hint=hint) from error
        if isinstance(error, DeltaError | OSError | pa.ArrowException):
            raise LakeError(f"changes cannot be landed: {words}", place=log.path, hint=_ROOM) from error
        raise


def _check_count(log: TableLog, table: DeltaTable, note: str, images: int) -> None:
    """Raises TableStopped if delta-rs wrote a different number of rows than arrived. Another commit may have
    followed."""
    commit = next((one for one in table.history(1) if one.get("userMetadata") == note), {})
    added = commit.get("operationMetrics", {}).get("num_added_rows")
    if added is not None and int(added) != images:
        message = f"{added} rows are in the change log, of {images} that arrived"
        raise TableStopped(message, place=log.path, hint=copy_hint(log.destination, log.name))


def _compact(table: DeltaTable) -> None:
    """Joins small files now and then. It changes no row, and its errors are ignored: they may pass."""
    if table.version() % _COMPACT_EVERY == _COMPACT_EVERY - 1:
        with suppress(DeltaError, OSError):
            table.optimize.compact(writer_properties=exact_statistics(pa.schema(table.schema().to_arrow())))

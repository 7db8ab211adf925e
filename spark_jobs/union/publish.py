"""Brings a union to name the files of its shards, in one commit of delta-rs, without Spark.

The union is opened first and the shards after it, and the one commit of this look is on that version: if anybody
commits in between, it is refused, and everything is looked at again. So no commit takes a shard back, and no version
has rows of both before and after. Other columns are a commit of their own, which changes no row, and another look.

Each commit of Sluice's records its own version. Where that is not the union's, somebody else has written: what he did
to the files is undone, by those of the version that was recorded, also of other destinations' shards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, TableFeatures
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from cdc_core.errors import LakeError, TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.folders import folder_of
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import KEPT_LOG
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import SHARDS, Union
from spark_jobs.union.files import File, difference, files_of_union
from spark_jobs.union.shape import UnionShape, shape
from spark_jobs.union.shards import ShardTable, folder_in, shards_of

UNION = "sluice.union"  # the property of a union, the columns that say whose a row is; and the app id of its commits
_PROPERTIES = {"delta.logRetentionDuration": KEPT_LOG, "delta.checkpointInterval": "10"}
_TRIES = 20  # a try is lost to another destination's commit
_NTZ = "timestamp_ntz"
_Given = TypeVar("_Given")


@dataclass(frozen=True, slots=True)
class Published:
    """A union, its Delta version, None if it has no shard yet, the number of files that were added and removed, and the
    shards that are left as they were, each with the reason."""

    union: str
    version: int | None
    added: int = 0
    removed: int = 0
    refused: Mapping[str, TableStopped] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether its rows may be others than before."""
        return bool(self.added or self.removed)


def publish(
    lake: Lake, union: Union, only: Collection[str] | None = None, sleep: Callable[[float], None] = time.sleep
) -> Published:
    """Publishes one union: all of the destination's shards, or `only` these tables, `database.table`, as far as they
    are shards of it. Raises LakeError for a union that cannot be written, or is another table."""
    path = lake.path(*split_name(union.table))
    return _tried(path, lambda: _published(lake, union, path, only), sleep)


def refused(lake: Lake, union: Union) -> Mapping[str, TableStopped]:
    """Returns the destination's shards that the union cannot have, each with the reason. Nothing is written. Raises
    LakeError for a union that cannot be read, or is another table."""
    path = lake.path(*split_name(union.table))
    return _tried(path, lambda: _look(lake, union, path, None).refused)


def withdraw(lake: Lake, union: Union, sleep: Callable[[float], None] = time.sleep) -> tuple[int, int] | None:
    """Takes the destination's rows out of a union, whatever its columns. Returns how many files that were, and how many
    the union has left; None if there is no union at its place. Raises LakeError for one that cannot be written."""
    path = lake.path(*split_name(union.table))
    return _tried(path, lambda: _withdrawn(lake, union, path), sleep)


def _tried(path: str, work: Callable[[], _Given], sleep: Callable[[float], None] = time.sleep) -> _Given:
    """Returns what the work returns, which is begun again where another commit was faster. Raises LakeError."""
    for tries in range(_TRIES):
        try:
            return work()
        except CommitFailedError:
            sleep(0.01 * tries)
        except (DeltaError, OSError) as error:
            hint = "Make the lake writable and give it room; the batch stays claimable."
            raise LakeError(f"the union cannot be written: {first_line(error)}", place=path, hint=hint) from error
    hint = "Make sure that nothing else writes this table; the batch stays claimable."
    raise LakeError("other writers keep committing to the table", place=path, hint=hint)


@dataclass(frozen=True, slots=True)
class _Look:
    """A union's table, None if there is none, the files that it `has`, those that Sluice left `there`, and the shards,
    which are the destination's if `whole`. `found`: the columns of all of them."""

    table: DeltaTable | None
    has: list[File]
    there: list[File]
    shards: list[ShardTable]
    found: UnionShape
    whole: bool

    @property
    def refused(self) -> dict[str, TableStopped]:
        return {one.name: one.wrong for one in self.shards if one.wrong}


def _look(lake: Lake, union: Union, path: str, only: Collection[str] | None) -> _Look:
    table = _opened(lake, union, path)
    has = files_of_union(table) if table else []
    left = has if table is None or _own(table) else _left_by_us(lake, path, table)
    only, there = (None, has) if table is None or left is None else (only, left)
    shards = shards_of(lake, union, there, only)
    known = list(table.schema().fields) if table else []
    found = shape(known, {one.name: one.fields for one in shards if not one.wrong}, union.partitions)
    shards = [_judged(one, union, found, lake.unions.destination) for one in shards]
    return _Look(table, has, there, shards, found, only is None)


def _published(lake: Lake, union: Union, path: str, only: Collection[str] | None) -> Published:
    look = _look(lake, union, path, only)
    table, shards, refused = look.table, look.shards, look.refused
    wanted = [one for shard in shards if not shard.wrong for one in shard.files]
    if table is None:
        if not any(shard.fields for shard in shards if not shard.wrong):
            return Published(union.table, None, refused=refused)
        table = _created(lake, union, path, look.found)
    elif _types(look.found.fields) != _types(table.schema().fields):
        _reshape(table, union, look.found)
        raise CommitFailedError("the union has other columns now: everything is looked at again")
    looked_at = {one.path for one in _looked_at(look.there, shards, lake.unions.destination, whole=look.whole)}
    kept = [one for one in look.there if one.path not in looked_at]
    added, removed = difference([*kept, *wanted], look.has)
    if added or removed or not _own(table):
        _commit(table, union, added, removed)
        table.update_incremental()
    return Published(union.table, table.version(), len(added), len(removed), refused)


def _withdrawn(lake: Lake, union: Union, path: str) -> tuple[int, int] | None:
    table = _table(lake, path)
    noted = table.metadata().configuration.get(UNION) if table else None
    if table is None or noted is None:
        return None
    begun = json.loads(noted)
    union = replace(union, columns=tuple(begun["columns"]), destination=begun["destination"])
    has = files_of_union(table)
    left = has if _own(table) else _left_by_us(lake, path, table) or has
    gone = {one.path for one in _looked_at(left, [], lake.unions.destination, whole=True)}
    kept = [one for one in left if one.path not in gone]
    added, removed = difference(kept, has)
    if added or removed:
        _commit(table, union, added, removed)
    return len(gone), len(kept)


def _own(table: DeltaTable) -> bool:
    """Whether the table's last commit is Sluice's."""
    return table.transaction_version(UNION) == table.version()


def _left_by_us(lake: Lake, path: str, table: DeltaTable) -> list[File] | None:
    """Returns the files that the union had after Sluice's last commit. None if that is not known any more."""
    version = table.transaction_version(UNION)
    if version is None or version > table.version():
        return None
    try:
        return files_of_union(lake.open(path, version), bounds=True)
    except (DeltaError, OSError):
        return None


def _looked_at(there: Iterable[File], shards: Iterable[ShardTable], destination: str, *, whole: bool) -> list[File]:
    """Returns the union's files that only these shards can have, and those that are no shard's; if `whole`, all that no
    other destination has. A shard that is left as it was is not looked at."""
    seen, left = {one.below for one in shards}, {one.below for one in shards if one.wrong}
    own, found = f"{SHARDS}/{folder_of(destination)}", list[File]()
    for one in there:
        below = folder_in(one.path)
        nobodys = not below.startswith(f"{SHARDS}/")
        if below not in left and (nobodys or below in seen or (whole and below.startswith(f"{own}/"))):
            found.append(one)
    return found


def _table(lake: Lake, path: str) -> DeltaTable | None:
    """Returns the table at a union's path, or None if there is none. Raises LakeError for a damaged one."""
    try:
        return lake.open(path)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        hint = "Restore its _delta_log, or move that away: the union is made again from its shards."
        raise LakeError(f"the union is damaged: {first_line(error)}", place=path, hint=hint) from error


def _opened(lake: Lake, union: Union, path: str) -> DeltaTable | None:
    """Returns the union's table, or None before its first shard. Raises LakeError for a damaged one, and for another
    table at its place."""
    table = _table(lake, path)
    if table is None:
        return None
    noted = table.metadata().configuration.get(UNION)
    if noted != _note(union):
        if noted is None:
            what, hint = "is a table of its own", "Give the union another name in `into`, or move that table away."
        else:
            what = f"was begun with other columns: {', '.join(table.metadata().partition_columns)}"
            hint = "Name these in `into`, or move the union's _delta_log away: it is made again from its shards."
        raise LakeError(f"{union.table} {what}", place=path, hint=f"{hint} Nothing was written to it.")
    return table


def _note(union: Union) -> str:
    return json.dumps({"columns": list(union.columns), "destination": union.destination})


def _judged(shard: ShardTable, union: Union, found: UnionShape, destination: str) -> ShardTable:
    """Returns the shard with what is wrong with its columns."""
    if shard.wrong or shard.name not in found.unfit:
        return shard
    message = f"it cannot be in {union.table}: {found.unfit[shard.name]}"
    hint = f"Change its column at the source, or leave it out of `into`. {copy_hint(destination, shard.name)}"
    return replace(shard, wrong=TableStopped(message, place=shard.name, hint=hint))


def _types(fields: Iterable[Field]) -> dict[str, str]:
    return {one.name: one.type.to_json() for one in fields}


def _created(lake: Lake, union: Union, path: str, found: UnionShape) -> DeltaTable:
    try:
        return DeltaTable.create(
            path,
            Schema(list(found.fields)),
            partition_by=list(union.partitions),
            configuration={**_PROPERTIES, UNION: _note(union)},
            storage_options=lake.storage or None,
            raise_if_key_not_exists=False,
        )
    except DeltaError as error:
        if lake.has(*split_name(union.table)):  # another destination was faster
            raise CommitFailedError(str(error)) from error
        raise


def _reshape(table: DeltaTable, union: Union, found: UnionShape) -> None:
    """Gives the union its columns, or the feature that they need. Its files are named again, because their statistics
    are those of all columns."""
    ntz = any(getattr(one.type, "type", "") == _NTZ for one in found.fields)
    if ntz and "timestampNtz" not in (table.protocol().writer_features or ()):
        table.alter.add_feature(TableFeatures.TimestampWithoutTimezone, allow_protocol_versions_increase=True)
        return
    schema = _schema(found.fields, union)
    table.create_write_transaction(
        [one.added(schema, new=False) for one in files_of_union(table, bounds=True)],
        "overwrite",  # delta-rs takes other columns so alone; no row has an empty partition
        Schema(list(found.fields)),
        partition_by=list(union.partitions),
        partition_filters=[(union.partitions[0], "=", "")],
        commit_properties=_properties(table, {"union": union.table, "columns": [one.name for one in found.fields]}),
    )


def _commit(table: DeltaTable, union: Union, added: list[File], removed: list[File]) -> None:
    now, schema = int(time.time() * 1000), _schema(table.schema().fields, union)
    about = {"union": union.table, "added": len(added), "removed": len(removed)}
    table.create_write_transaction(
        [*(one.added(schema) for one in added), *(one.removed(now) for one in removed)],
        "append",
        table.schema(),
        partition_by=list(union.partitions),
        commit_properties=_properties(table, about),
    )


def _properties(table: DeltaTable, about: Mapping[str, Any]) -> CommitProperties:
    return CommitProperties(
        custom_metadata={"userMetadata": json.dumps(about)},
        max_commit_retries=0,
        app_transactions=app_versions({UNION: table.version() + 1}),
    )


def _schema(fields: Iterable[Field], union: Union) -> pa.Schema:
    """Returns the columns that are in the files."""
    return pa.schema(Schema([one for one in fields if one.name not in union.partitions]).to_arrow())

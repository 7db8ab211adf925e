"""The shards of a union as their tables are in the lake, read with delta-rs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from deltalake import DeltaTable, Field
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_core.errors import TableStopped
from cdc_core.schema.names import full_name, split_name
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.features import VECTORS, features_of
from spark_jobs.lake.folders import folder_of, name_of
from spark_jobs.lake.record import DROPPED
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import DESTINATION
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn, needs_mapping
from spark_jobs.lake.unions import SHARDS, Union
from spark_jobs.union.files import File, files_of_shard

_IN_FILES = "delta.columnMapping.physicalName"  # of a column, in a table with column mapping


@dataclass(frozen=True, slots=True)
class ShardTable:
    """A shard's table, `database.table`, its folder in the union's, its columns and files, and why the union cannot
    have them as they are."""

    name: str
    below: str
    fields: tuple[Field, ...] = ()
    files: tuple[File, ...] = ()
    wrong: TableStopped | None = None


def folder_in(path: str) -> str:
    """Returns the folder of the shard that a union's file is of."""
    return "/".join(path.split("/")[:4])


def shards_of(lake: Lake, union: Union, there: Iterable[File], only: Collection[str] | None) -> list[ShardTable]:
    """Returns the destination's shards that the lake has, or `only` these, without files where it has none. No two have
    the same values, also not with others whose files are `there`."""
    destination, found = lake.unions.destination, list[ShardTable]()
    names = (
        shard_names(lake, union) if only is None else [one for one in sorted(only) if union in lake.unions.among([one])]
    )
    folders = {name: "/".join(map(folder_of, split_name(name))) for name in names}
    own = f"{SHARDS}/{folder_of(destination)}"
    looked_at = {f"{own}/{folder}" for folder in folders.values()}
    others = (one for one in there if one.path.startswith(f"{SHARDS}/") and folder_in(one.path) not in looked_at)
    taken = {
        frozenset(one.values.items()): _owner(one.path)
        for one in others
        if only is not None or not one.path.startswith(f"{own}/")
    }
    for name, folder in folders.items():
        shard = ShardTable(name, f"{own}/{folder}")
        try:
            values = union.values(name, destination) or {}
            shard = _read(lake, union, shard, values)
            if shard.fields and (other := taken.setdefault(frozenset(values.items()), name)) != name:
                hint = "Have `into` name a column, or give its pattern a group, for what tells them apart."
                raise TableStopped(f"{other} has the same columns in {union.table}", place=name, hint=hint)
        except TableStopped as error:
            shard = replace(shard, wrong=error)
        found.append(shard)
    return found


def shard_names(lake: Lake, union: Union) -> list[str]:
    """Returns the tables, `database.table`, that have a folder among the shards and still belong there."""
    root = lake.shards_path(union)
    names = (
        full_name(name_of(database), name_of(folder))
        for database in sorted(lake.folders_in(root))
        for folder in sorted(lake.folders_in(f"{root}/{database}"))
    )
    return [one for one in names if union in lake.unions.among([one])]


def _owner(path: str) -> str:
    """Returns who has a union's file, in words."""
    _, destination, database, table, *_ = path.split("/")
    return f"{full_name(name_of(database), name_of(table))} of {name_of(destination)}"


def _read(lake: Lake, union: Union, shard: ShardTable, values: Mapping[str, str]) -> ShardTable:
    """Returns the shard as its table is. Without columns and files if it has none, or one without an owner, as a killed
    switch leaves it, or one whose rows went away or to another name: its values are free. Raises TableStopped for a
    table that no union can have."""
    destination = lake.unions.destination
    path = lake.path(*split_name(shard.name))
    try:
        table = lake.open(path)
    except TableNotFoundError:
        return shard
    except DeltaError as error:
        hint = f"Restore its _delta_log. {copy_hint(destination, shard.name)}"
        message = f"the Delta table is damaged: {first_line(error)}"
        raise TableStopped(message, place=shard.name, hint=hint) from error
    properties = table.metadata().configuration
    if properties.get(DESTINATION) != destination or (DROPPED in properties and not table.file_uris()):
        return shard
    _check(table, shard.name, destination)
    files = files_of_shard(table, path.removeprefix(f"{lake.path(*split_name(union.table))}/"), values)
    return replace(shard, fields=tuple(table.schema().fields), files=tuple(files))


def _check(table: DeltaTable, name: str, destination: str) -> None:
    """Raises CopyNeeded for a shard whose files are more than their columns: a copy writes plain ones. Raises
    TableStopped for one whose columns no plain file can have."""
    fields = table.schema().fields
    if odd := [one.name for one in fields if needs_mapping([LakeColumn(one.name, "")])]:
        hint = "Give it another name (`rename` of `rules` in defs.yaml), or leave the table out of `into`."
        message = f"it cannot be in a union: its files cannot have a column of the name {odd[0]!r}"
        raise TableStopped(message, place=name, hint=hint)
    if any(one.metadata.get(_IN_FILES, one.name) != one.name for one in fields):
        what = "its columns have other names in its files"
    elif VECTORS in features_of(table) and table.deletion_vectors().read_all().num_rows:
        what = "its files have deletion vectors"
    elif table.metadata().partition_columns:
        what = "its files are partitioned"
    else:
        return
    error = CopyNeeded(f"it cannot be in a union: {what}", name)
    error.hint = copy_hint(destination, name)
    raise error

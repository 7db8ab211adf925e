"""What a run does about unions before its first batch: their tables are where they should be, every union has what its
shards have, and one that `into` no longer names ends. The lake notes its unions, for whoever works on it without a
defs.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from cdc_core.errors import LakeError, TableStopped
from cdc_core.schema.names import split_name
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import NO_UNIONS, Unions, unions_from, unions_json
from spark_jobs.union.ended import end
from spark_jobs.union.publish import publish

_INTO = "sluice.into"


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of unions that ended, in words, and the shards that their unions cannot have, each with the
    reason."""

    ended: tuple[str, ...] = ()
    refused: Mapping[str, TableStopped] = field(default_factory=dict)


def settle(lake: Lake, destination: str) -> Settled:
    """Notes the lake's unions and publishes them. Raises LakeError if a table of the destination would be looked for in
    another folder than it has: its rows would seem to be missing."""
    before, ended, refused = noted_unions(lake, destination), list[str](), dict[str, TableStopped]()
    if before.all != lake.unions.all:
        there = Lake(lake.root, storage=lake.storage, unions=before)
        if moved := next(_moved(there, lake, destination), None):
            name, old, new = moved
            hint = f"Move {old} to {new} while no run is under way: all that is known of it goes along. Or undo the "
            hint += "change of `into` in defs.yaml."
            raise LakeError(f"`into` gives the table {name} another folder", place=old, hint=hint)
        kept = {one.table for one in lake.unions.all}
        ended += filter(None, (end(there, one) for one in before.all if one.table not in kept))
        _notes(lake, destination).write({_INTO: unions_json(lake.unions)})
    for union in lake.unions.all:
        refused |= publish(lake, union).refused
    return Settled(tuple(ended), refused)


def needed_by_union(lake: Lake, table: str) -> str:
    """Publishes the union of `database.table`, if it is a shard: the union then names none of its old files. Returns
    why it may name some all the same, or "". Raises LakeError."""
    shard = lake.shard(*split_name(table))
    if shard is None:
        return ""
    refused = publish(lake, shard.union, [table]).refused.get(table)
    return f"{shard.union.table} may need them: {refused.message}" if refused else ""


def noted_unions(lake: Lake, destination: str) -> Unions:
    """Returns the unions that a run noted last. Raises LakeError."""
    text = _notes(lake, destination).read(_INTO).get("")
    return unions_from(text) if text else NO_UNIONS


def _notes(lake: Lake, destination: str) -> Noted:
    return Noted(lake, lake.unions_path(destination))


def _moved(before: Lake, after: Lake, destination: str) -> Iterator[tuple[str, str, str]]:
    """Yields the tables that the lake has, each with its folder and the one where it will be looked for."""
    for database in before.databases():
        for name in before.tables(database, destination):
            with suppress(TableStopped):  # one that goes nowhere stops when its rows come
                old, new = (one.path(*split_name(name)) for one in (before, after))
                if old != new and before.has(*split_name(name)):  # a name is found in every folder of its database
                    yield name, old, new

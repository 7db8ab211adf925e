"""The columns of a union: pure. It has every column that a shard has, as wide as the widest.

A shard's file that lacks a column has NULL there, and readers widen the numbers of its files. Where types do not go
together, the shard is left out, and the union stays as it was for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deltalake import Field
from deltalake.schema import PrimitiveType

from spark_jobs.lake.types import delta_type

_WIDER = (("byte", "short", "integer", "long"), ("float", "double"))


@dataclass(frozen=True, slots=True)
class UnionShape:
    """The columns of a union, those that say whose a row is at the end, and by shard why it cannot be in the union."""

    fields: tuple[Field, ...]
    unfit: Mapping[str, str] = field(default_factory=dict)


def shape(there: Sequence[Field], shards: Mapping[str, Sequence[Field]], partitions: Sequence[str]) -> UnionShape:
    """Returns the columns of a union with the columns `there`, empty for a new one, and these shards. `partitions`: the
    names of the columns that say whose a row is."""
    columns = {one.name: one for one in there if one.name not in partitions}
    unfit = dict[str, str]()
    for shard, fields in shards.items():
        try:
            columns = _with(columns, fields, partitions)
        except _Unfit as error:
            unfit[shard] = str(error)
    own = (Field(name, PrimitiveType("string")) for name in partitions)
    return UnionShape((*columns.values(), *own), unfit)


class _Unfit(Exception):
    """The shard cannot be in the union."""


def _with(columns: Mapping[str, Field], fields: Iterable[Field], partitions: Sequence[str]) -> dict[str, Field]:
    found, spelled = dict(columns), {name.lower(): name for name in (*columns, *partitions)}
    for one in fields:
        known = spelled.setdefault(one.name.lower(), one.name)
        if known in partitions:
            raise _Unfit(f"its column {one.name!r} has the name of a column that says whose a row is")
        if known != one.name:
            raise _Unfit(f"its column {one.name!r} is {known!r} in the union, and Delta ignores case")
        found[known] = _both(found[known], one) if known in found else _plain(one)
    return found


def _both(there: Field, new: Field) -> Field:
    before, now = delta_type(there.type), delta_type(new.type)
    if before == now:
        return there
    for kinds in _WIDER:
        names = [str(getattr(one.type, "type", "")) for one in (there, new)]
        if {*names} <= {*kinds}:
            wide = PrimitiveType(max(names, key=kinds.index))
            return Field(there.name, wide, nullable=True, metadata=dict(there.metadata))
    raise _Unfit(f"its column {new.name!r} is {now}, and {before} in the union")


def _plain(one: Field) -> Field:
    comment = {key: value for key, value in one.metadata.items() if key == "comment"}
    return Field(one.name, one.type, nullable=True, metadata=comment)

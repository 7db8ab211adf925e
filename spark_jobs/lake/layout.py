"""The layout of tables: how their files are laid out and which features of Delta they have. Values of the
configuration.

A table keeps its layout in a property, so that what replaces the table later keeps it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TypeVar

from cdc_core.errors import TableStopped
from spark_jobs.lake.features import ENABLE_VECTORS
from spark_jobs.lake.sql import quote

LAYOUT = "sluice.layout"
REMEDY = "Correct the table's table_properties, cluster_by or partition_by in defs.yaml."
_PARTITIONS = re.compile(r"tinyint|smallint|int|bigint|boolean|date|decimal\(\d+,0\)")
_Rule = TypeVar("_Rule")


class Vectors(StrEnum):
    """Whether a table may have deletion vectors."""

    AUTO = "auto"  # from the first MERGE on that gains by them
    NEVER = "never"
    ALWAYS = "always"  # from its beginning


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one table. `properties` are Delta's, `cluster_by` and `partition_by` names of columns."""

    vectors: Vectors = Vectors.AUTO
    properties: Mapping[str, str] = field(default_factory=dict)
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Layout:
        """Returns the columns by which a table with these properties is partitioned or clustered."""
        node = json.loads(properties.get(LAYOUT) or "{}")
        return cls(cluster_by=tuple(node.get("cluster_by", ())), partition_by=tuple(node.get("partition_by", ())))

    @classmethod
    def noted(cls, properties: Mapping[str, str]) -> Layout | None:
        """Returns the layout that a table with these properties got last, or None if they do not say it."""
        node = json.loads(properties.get(LAYOUT) or "{}")
        if "vectors" in node:
            laid = cls.of(properties)
            return cls(Vectors(node["vectors"]), node["properties"], laid.cluster_by, laid.partition_by)
        never = LAYOUT not in properties and properties.get(ENABLE_VECTORS, "").lower() == "false"
        return cls(Vectors.NEVER) if never else None

    @property
    def needs_spark(self) -> bool:
        """Whether Spark makes the table: delta-rs does not know all of these."""
        return bool(self.properties or self.cluster_by or self.partition_by or self.vectors is Vectors.ALWAYS)

    @property
    def declared(self) -> dict[str, str]:
        """Returns Delta's properties that the table gets."""
        vectors = {Vectors.NEVER: "false", Vectors.ALWAYS: "true"}.get(self.vectors)
        return dict(self.properties) | ({ENABLE_VECTORS: vectors} if vectors else {})

    @property
    def note(self) -> dict[str, str]:
        """Returns the properties of a new table, which name the layout if Spark must make the table."""
        return self.declared | ({LAYOUT: json.dumps(asdict(self), sort_keys=True)} if self.needs_spark else {})

    def of_shard(self, table: str) -> Layout:
        """Returns it for a shard, whose union can name its files only if these are plain. Raises TableStopped for a
        layout that a shard cannot have."""
        if self.needs_spark:
            hint = f"Leave it out of all of these, or out of `into`. {REMEDY}"
            message = "a shard has no table_properties, cluster_by, partition_by or deletion vectors of its own"
            raise TableStopped(message, place=table, hint=hint)
        return Layout(Vectors.NEVER)

    def among(self, types: Mapping[str, str]) -> Layout:
        """Returns it with those columns alone that a table with columns of these types can have: the source may have
        renamed, dropped or changed others."""
        clusters = tuple(name for name in self.cluster_by if name in types)
        partitions = tuple(name for name in self.partition_by if name in types and _is_kept(types[name]))
        return Layout(self.vectors, self.properties, clusters, partitions)

    @property
    def clause(self) -> str:
        """Returns the clause of a CREATE TABLE, with a blank before it."""
        for word, names in (("CLUSTER BY", self.cluster_by), ("PARTITIONED BY", self.partition_by)):
            if names:
                return f" {word} ({', '.join(map(quote, names))})"
        return ""

    def check(self, table: str, types: Mapping[str, str]) -> None:
        """Raises TableStopped for a source table, with columns of these types in SQL, that cannot have it."""
        if self.cluster_by and self.partition_by:
            hint = "Leave it out of cluster_by or of partition_by in defs.yaml."
            raise TableStopped("it is to be both clustered and partitioned", place=table, hint=hint)
        for word, names in (("cluster_by", self.cluster_by), ("partition_by", self.partition_by)):
            if missing := [name for name in names if name not in types]:
                message = f"{word} names columns that it does not have: {', '.join(missing)}"
                raise TableStopped(message, place=table, hint=f"It has {', '.join(types)}. {REMEDY}")
        for name in self.partition_by:
            if not _is_kept(types[name]):
                message = f"partition_by names {name}, of type {types[name]}, and a partition may lose such a value"
                hint = "Name it in cluster_by, or partition by a number or a DATE, which may be a generated column."
                raise TableStopped(message, place=table, hint=hint)


@dataclass(frozen=True, slots=True)
class Layouts:
    """By pattern (`shop.*`, as in a shell): the first that fits a table counts. Without one `vectors`, and nothing
    else."""

    vectors: Vectors = Vectors.AUTO
    vectors_by: Mapping[str, Vectors] = field(default_factory=dict)
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cluster_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    partition_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, table: str) -> Layout:
        """Returns the layout that `database.table` should have."""
        return Layout(
            _first(self.vectors_by, table, self.vectors),
            _first(self.properties, table, {}),
            _first(self.cluster_by, table, ()),
            _first(self.partition_by, table, ()),
        )


def _is_kept(kind: str) -> bool:
    """Whether each value of the type is read back from a partition as it was. Delta writes these values as text, of
    which the empty one is NULL. Spark and delta-rs write fractions, times and bytes differently, and delta-rs misreads
    some."""
    return bool(_PARTITIONS.fullmatch(kind))


def _first(rules: Mapping[str, _Rule], table: str, otherwise: _Rule) -> _Rule:
    return next((rule for pattern, rule in rules.items() if fnmatchcase(table, pattern)), otherwise)


def layouts_json(layouts: Layouts) -> str:
    """Returns the layouts as text, for a configuration."""
    return json.dumps(asdict(layouts))


def layouts_from(text: str) -> Layouts:
    """Returns the layouts that `layouts_json` wrote; the defaults for an empty object."""
    node = json.loads(text)
    if not node:
        return Layouts()
    columns = ({name: tuple(listed) for name, listed in node[key].items()} for key in ("cluster_by", "partition_by"))
    by_table = {pattern: Vectors(one) for pattern, one in node["vectors_by"].items()}
    return Layouts(Vectors(node["vectors"]), by_table, node["properties"], *columns)

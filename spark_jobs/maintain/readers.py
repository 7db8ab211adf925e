"""Brings a table to its layout, and to the features that its columns need: a pure plan, and its steps.

Each further feature keeps out programs that do not know it. A step is done by Spark, changes no row, and may be
repeated. What no step can bring about is named with the remedy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from deltalake.exceptions import CommitFailedError
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from spark_jobs.lake.ddl import listed
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.features import ENABLE_VECTORS, MAPPING, VECTORS
from spark_jobs.lake.layout import LAYOUT, Layout, Vectors
from spark_jobs.lake.properties import without_features
from spark_jobs.lake.sql import literal, quote
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.transaction import is_conflict
from spark_jobs.session import Sessions
from spark_jobs.write.order import MOST_BYTES

_OF_TYPES = {"variantType": "variant", "timestampNtz": "timestamp_ntz"}  # features that a column of the type needs
_UNDROPPABLE = {"variantType"}  # by Delta itself
_MAPPING = "columnMapping"


@dataclass(frozen=True, slots=True)
class ReaderStep:
    """What it does, in words, and as statements in SQL; `drops` is a feature that goes after these."""

    text: str
    statements: tuple[str, ...] = ()
    drops: str = ""


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """`lasting`: what differs, and no step can change."""

    steps: tuple[ReaderStep, ...] = ()
    lasting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReaderChange:
    """The work of one step on the table at `path`."""

    lake: Lake
    sessions: Sessions
    path: str
    step: ReaderStep

    def __call__(self) -> bool:
        """Does it. Returns False if another run wrote the table meanwhile. Raises LakeError."""
        try:
            with self.sessions.take() as spark, lake_errors(self.path):
                try:
                    for statement in self.step.statements:
                        spark.sql(statement).collect()
                    return not self.step.drops or self._drop(spark, self.step.drops)
                except PySparkException as error:
                    if is_conflict(error):
                        return False
                    raise
        except CommitFailedError:
            return False

    def _drop(self, spark: SparkSession, feature: str) -> bool:
        table = self.lake.open(self.path)
        if feature == VECTORS and table.deletion_vectors().read_all().num_rows:
            return False
        if not without_features(table, [feature]):
            spark.sql(f"ALTER TABLE delta.{quote(self.path)} DROP FEATURE {feature}").collect()
        return True


def reader_plan(
    path: str,
    state: TableState,
    layout: Layout | None,
    size: int,
    partitions: tuple[str, ...],
    *,
    local: bool = True,
) -> ReaderPlan:
    """Returns the plan for a table of `size` bytes. `layout`: None if it is not known what the table should have; then
    it keeps the one that it notes. `local`: whether its lake is in a file system."""
    table, known = f"delta.{quote(path)}", layout or Layout.noted(state.properties)
    wanted = known or (Layout(Vectors.ALWAYS) if LAYOUT in state.properties else Layout())
    steps = _laid_out(table, state, layout) if layout else _properties(table, state, wanted) if known else []
    gained = VECTORS in state.features and not _unwanted_vectors(state, wanted, size)
    if _unwanted_vectors(state, wanted, size):
        steps.append(_without_vectors(table, wanted))
    elif known and wanted.vectors is Vectors.AUTO and _is_off(state):
        steps.append(ReaderStep(f"{VECTORS} again when it gains by them", (_unset(table),)))
    needless = needless_features(state.features, [column.type for column in state.columns])
    steps += [ReaderStep(f"without {name}", drops=name) for name in needless if local or name not in _UNDROPPABLE]
    lasting = [
        f"{name} stays: in an object store it cannot be dropped"
        for name in needless
        if not local and name in _UNDROPPABLE
    ]
    if _MAPPING in state.features or state.properties.get(MAPPING, "none") != "none":
        lasting.append(f"{_MAPPING} stays: a column was renamed or dropped, or has a name that Parquet cannot hold")
    if layout is not None and wanted.partition_by != partitions:
        how = ", ".join(wanted.partition_by) or "nothing"
        lasting.append(f"partition_by {how}: only a reload of the table lays it out so (sluice copy)")
    if gained and wanted.vectors is Vectors.AUTO:
        lasting.append(f"{VECTORS} stay: the table gains by them; with `deletion_vectors: never` they go")
    return ReaderPlan(tuple(steps), tuple(lasting))


def needless_features(features: Collection[str], types: Iterable[str]) -> tuple[str, ...]:
    """Returns those of a table's features that no column of these types needs."""
    there = list(types)
    return tuple(name for name, kind in _OF_TYPES.items() if name in features and not any(kind in one for one in there))


def _laid_out(table: str, state: TableState, layout: Layout) -> list[ReaderStep]:
    """Returns the steps that bring the table to a layout, and note it. Partitions stay as they are."""
    there, has = {column.name: column.type for column in state.columns}, Layout.of(state.properties)
    clusters = () if has.partition_by else layout.among(there).cluster_by
    kept = replace(layout, cluster_by=clusters, partition_by=has.partition_by)
    steps = [*_properties(table, state, kept), *_clusters(table, has, kept)]
    note, noted = kept.note.get(LAYOUT), state.properties.get(LAYOUT)
    if note == noted:
        return steps
    gone = f"UNSET TBLPROPERTIES IF EXISTS ({literal(LAYOUT)})"
    change = f"SET TBLPROPERTIES ({listed({LAYOUT: note})})" if note else gone
    *before, last = steps or [ReaderStep("its layout is noted")]
    return [*before, replace(last, statements=(*last.statements, f"ALTER TABLE {table} {change}"))]


def _properties(table: str, state: TableState, layout: Layout) -> list[ReaderStep]:
    declared = {name: text for name, text in layout.declared.items() if state.properties.get(name) != text}
    if not declared:
        return []
    said = ", ".join(f"{name} = {text}" for name, text in sorted(declared.items()))
    return [ReaderStep(f"set {said}", (f"ALTER TABLE {table} SET TBLPROPERTIES ({listed(declared)})",))]


def _clusters(table: str, has: Layout, layout: Layout) -> list[ReaderStep]:
    wanted = layout.cluster_by
    if wanted == has.cluster_by:
        return []
    names = f"({', '.join(map(quote, wanted))})" if wanted else "NONE"
    return [ReaderStep(f"clustered by {', '.join(wanted) or 'nothing'}", (f"ALTER TABLE {table} CLUSTER BY {names}",))]


def _unwanted_vectors(state: TableState, layout: Layout, size: int) -> bool:
    """Whether the table has vectors and may have none, or is too small to gain by them."""
    if VECTORS not in state.features or layout.vectors is Vectors.ALWAYS:
        return False
    return layout.vectors is Vectors.NEVER or size <= MOST_BYTES


def _is_off(state: TableState) -> bool:
    """Whether the table may get no vectors, also where it would gain by them: it was to have none, once."""
    return state.properties.get(ENABLE_VECTORS, "").lower() == "false"


def _without_vectors(table: str, layout: Layout) -> ReaderStep:
    """Returns the step after which the table has none. A killed one leaves a table that may get them as before."""
    never = f"ALTER TABLE {table} SET TBLPROPERTIES ({listed({ENABLE_VECTORS: 'false'})})"
    off = never if layout.vectors is Vectors.NEVER else _unset(table)
    return ReaderStep(f"without {VECTORS}", (off, f"REORG TABLE {table} APPLY (PURGE)"), VECTORS)


def _unset(table: str) -> str:
    return f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({literal(ENABLE_VECTORS)})"

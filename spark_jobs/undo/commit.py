"""`Corrector`: puts the planned rows into a table, in one commit at the table's present place (`Rewrite`).

What is about to be done is noted before the commit, with its rows: a row that differs from the source and of which
nothing says why looks like damage, and a repair would take it back. Killed anywhere, the same may be done again: rows
that are there are not put twice, and the next correction of the table finds out what became of the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from cdc_core.errors import LakeError
from spark_jobs.lake.corrections import NOTE, CorrectedTable, Correction, Corrections
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.queries import identifier
from spark_jobs.lake.record import app_versions
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import DeltaCommit, TableState
from spark_jobs.lake.statistics import exact_statistics_of
from spark_jobs.lake.transaction import FEW_ROWS
from spark_jobs.lake.types import OP
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.load.replacement import Target
from spark_jobs.load.result import LakeClient, WentOn
from spark_jobs.load.rewrite import Rewrite
from spark_jobs.session import Sessions
from spark_jobs.undo.decision import ADDED, GONE
from spark_jobs.undo.plan import Planner, TablePlan
from spark_jobs.write.choice import spares_files
from spark_jobs.write.order import MOST_BYTES, writable
from spark_jobs.write.vectors import give_vectors

_VIEW = "sluice_correction"
_REFUSAL = (
    "The Delta table refuses rows that it had before. Remove the constraint or NOT NULL that came since, then do it "
    "again."
)


@dataclass(frozen=True, slots=True)
class Corrected:
    """What became of a table: the plan as it was carried out, and the `version` of the commit, None if nothing was left
    to put."""

    plan: TablePlan
    version: int | None


@dataclass(frozen=True, slots=True)
class Corrector:
    """Corrects tables of one client, planned by `planner`. `check` raises if a claim that keeps the lake still is
    lost."""

    tables: ClientTables
    sessions: Sessions
    planner: Planner
    clock: Callable[[], float] = time.time

    @property
    def corrections(self) -> Corrections:
        tables = self.tables
        return Corrections(tables.lake, tables.destination, tables.client_id)

    def correct(self, correction: Correction, plan: TablePlan, check: Callable[[], None] = lambda: None) -> Corrected:
        """Puts the rows of a plan. Raises WentOn if another run wrote the table meanwhile: plan it again; LakeError if
        it cannot be written, or was rewritten too often at its place."""
        tables, table, (epoch, at) = self.tables, plan.table, plan.place
        client = LakeClient(tables.destination, tables.client_id, epoch, correction.run_id)
        target = Target.fenced(tables.lake, self.sessions, client, table)
        rewrite = self._vectored(Rewrite.begun(target, self.sessions, at), at)
        if rewrite.state.columns != plan.state.columns:
            raise WentOn(target.path)
        settled = self._settle(table)
        plan = self.planner.again(plan, rewrite.state)
        if not plan.decision.puts:
            if correction.number not in settled:
                self.corrections.note(CorrectedTable(correction, table, "done", counts=_counts(plan)), self._now())
            return Corrected(plan, settled.get(correction.number))
        about = rewrite.about(NOTE, {"number": correction.number, "kind": correction.kind, "table": table})
        noted = CorrectedTable(correction, table, "began", counts=_counts(plan))
        self.corrections.began(noted, plan.decision.images(), self._now())
        check()
        rewrite.check(rewrite.state.version)
        made = self._commit(rewrite, plan, about)
        self.corrections.note(replace(noted, state="done", version=made.version), self._now())
        return Corrected(plan, made.version)

    def _settle(self, table: str) -> dict[int, int]:
        """Notes what became of corrections of the table that have begun. The table is fenced, so no commit of theirs
        comes any more. Returns the versions of those that came, by number."""
        begun = [one for one in self.corrections.of_table(table) if one.state == "began"]
        if not begun:
            return {}
        commits = self.tables.lake.commits(self.tables.path(table))
        made = {one.note[NOTE].get("number"): one.version for one in commits if NOTE in one.note}
        for one in begun:
            version = made.get(one.correction.number)
            state = replace(one, state="void" if version is None else "done", version=version)
            self.corrections.note(state, self._now())
        return {one.correction.number: made[one.correction.number] for one in begun if one.correction.number in made}

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)

    def _commit(self, rewrite: Rewrite, plan: TablePlan, about: str) -> DeltaCommit:
        source, key = plan.decision.source(), plan.state.primary_key
        path = rewrite.target.path
        if self._is_small(path, rewrite.state):
            return by_delta_rs(rewrite, source, key, about)

        between = self._key_range(path, plan, source)

        def merged(spark: SparkSession) -> None:
            types = from_arrow_schema(source.schema, prefer_timestamp_ntz=True)
            spark.createDataFrame(source, types).createOrReplaceTempView(_VIEW)
            spark.sql(statement(path, source.schema.names[:-1], key, between)).collect()

        return rewrite.commit(about, merged, _REFUSAL, few=source.num_rows <= FEW_ROWS)

    def _vectored(self, rewrite: Rewrite, at: int) -> Rewrite:
        """Gives a large table deletion vectors, as a batch would: without them Spark writes each file again that has
        one of the rows. Raises WentOn if a batch came in between, LakeError."""
        target, lake = rewrite.target, self.tables.lake
        if self._is_small(target.path, rewrite.state):
            return rewrite
        with self.sessions.take() as spark:
            give_vectors(spark, lake, target.fence, target.path, rewrite.state)
        state = lake.state(target.path, target.app)
        if state is None or (state.applied or 0) != at:
            raise WentOn(target.path)
        return replace(rewrite, state=state)

    def _key_range(self, path: str, plan: TablePlan, source: pa.Table) -> tuple[int, int] | None:
        """Returns the range of the keys, if that spares Spark enough files."""
        key = plan.state.primary_key
        if len(key) != 1 or not _is_whole(source.schema.field(key[0]).type):
            return None
        bounds = pc.min_max(source.column(key[0])).as_py()
        if bounds["min"] is None or source.column(key[0]).null_count:
            return None
        low, high = int(bounds["min"]), int(bounds["max"])
        return (low, high) if spares_files(self.tables.lake, path, key[0], low, high, plan.state) else None

    def _is_small(self, path: str, state: TableState) -> bool:
        """Whether delta-rs writes the table as Spark does, in less time."""
        return writable(state.features, state.properties) and self.tables.lake.size(path) <= MOST_BYTES


def statement(path: str, columns: list[str], key: tuple[str, ...], between: tuple[int, int] | None = None) -> str:
    """Returns one MERGE: all rows of a key are deleted, however many there are, and its new row is added. `between`
    bounds a key of one integer, so that Spark leaves files out."""
    same = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in key)
    if between is not None:
        same += f" AND t.{quote(key[0])} BETWEEN {between[0]} AND {between[1]}"
    names = [quote(name) for name in columns]
    return (
        f"MERGE INTO delta.{quote(path)} AS t USING {_VIEW} AS s ON s.{OP} = {GONE} AND {same} "  # noqa: S608
        f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.{OP} = {ADDED} "
        f"THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def by_delta_rs(rewrite: Rewrite, source: pa.Table, key: tuple[str, ...], about: str) -> DeltaCommit:
    """Makes the same commit without Spark. Raises WentOn if another one came in between, LakeError."""
    target = rewrite.target
    table: DeltaTable = target.lake.open(target.path)
    if table.version() != rewrite.state.version:
        raise WentOn(target.path)
    properties = CommitProperties(
        custom_metadata={"userMetadata": about},
        max_commit_retries=0,
        app_transactions=app_versions({target.app: rewrite.mark.upto}),
    )
    same = " AND ".join(f"t.{identifier(name)} IS NOT DISTINCT FROM s.{identifier(name)}" for name in key)
    try:
        table.merge(
            source, f"s.{identifier(OP)} = {GONE} AND {same}", source_alias="s", target_alias="t", streamed_exec=False,
            writer_properties=exact_statistics_of(source, table, key), commit_properties=properties,
        ).when_matched_delete().when_not_matched_insert(
            {name: f"s.{name}" for name in map(identifier, source.schema.names[:-1])}, f"s.{identifier(OP)} = {ADDED}"
        ).execute()  # fmt: skip
    except CommitFailedError as error:
        raise WentOn(target.path) from error
    except (DeltaError, OSError) as error:
        message = f"the table cannot be written: {first_line(error)}"
        raise LakeError(message, place=target.path, hint=_REFUSAL) from error
    made = target.lake.commit_noted(target.path, about)
    if made is None:
        raise WentOn(target.path)
    return made


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0))


def _counts(plan: TablePlan) -> dict[str, int]:
    """Returns the counts that are noted, and the place of the table."""
    decision, (epoch, at) = plan.decision, plan.place
    counts = {"put": len(decision.puts), "already": decision.already, "changed": len(decision.changed)}
    return counts | {"left": decision.left_alone, "epoch": epoch, "at": at}

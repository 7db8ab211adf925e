"""The lake: `{root}/{database}/{table}`, a Delta table per MySQL table, and what the tables say about themselves.

State is read with delta-rs, without Spark. Tables are made and altered through Spark, before any transaction setting
is on the session: a CREATE that carried the batch's version would make Delta skip the batch itself.
A Delta table that another destination (or somebody else) made is never written.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote as percent

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.client.failures import error_from
from cdc_core.errors import LakeError, RangeGone, TableStopped
from cdc_core.schema.table import TableSchema
from spark_jobs.session import is_gone
from spark_jobs.types import LakeColumn, delta_type, literal, needs_mapping, quote

_FILL = "sluice.unfilled"
_SAFE = " $-_.~@!+"
_SPACE = ("No space left", "Disk quota exceeded")
_OURS = re.compile(r"cdc_core\.[\w.]*?(\w+): ([^\n]*)")  # an error of ours, raised in one of Spark's workers
_DENIED = ("Permission denied", "Read-only file system", "Mkdirs failed", "Not a directory", "AccessDenied", "403")


@dataclass(frozen=True, slots=True)
class TableState:
    """A Delta table as its log has it. `applied` is the version of the last batch of one app id."""

    version: int
    applied: int | None
    columns: tuple[LakeColumn, ...]
    properties: dict[str, str]

    @property
    def fresh(self) -> bool:
        """Made and never written: nothing but the CREATE is in its log."""
        return self.version == 0

    @property
    def primary_key(self) -> tuple[str, ...]:
        return tuple(json.loads(self.properties.get("sluice.primary_key", "[]")))

    @property
    def unfilled(self) -> dict[str, str]:
        """Columns whose old rows have no values yet, with the SQL of these."""
        return dict(json.loads(self.properties.get(_FILL, "{}")))

    @property
    def complete(self) -> bool:
        return self.properties.get("sluice.complete") == "true"


def app_id(destination: str, client_id: int, table: str, epoch: int) -> str:
    """Delta's txnAppId of one table's batches."""
    return f"sluice:{destination}:{client_id}:{table}:{epoch}"


class Lake:
    """A root path or URI. `complete` says that tables made from now on start with the source's first row, so that
    their counts must add up strictly."""

    def __init__(self, root: str | Path, *, complete: bool = False, storage: dict[str, str] | None = None) -> None:
        self.root = str(root).rstrip("/")
        self.complete = complete
        self.storage = storage or {}

    def __repr__(self) -> str:
        return f"<Lake {self.root}>"

    def path(self, database: str, table: str) -> str:
        """Where a table lies. Raises TableStopped for a database whose name is ours."""
        if database.startswith("_sluice"):
            hint = "Leave the database out by the filter; names that start with _sluice are ours."
            raise TableStopped(f"database {database!r} has a reserved name", place=self.root, hint=hint)
        return f"{self.root}/{_folder(database)}/{_folder(table)}"

    def ledger_path(self, destination: str, client_id: int) -> str:
        return f"{self.root}/_sluice/{_folder(destination)}/{client_id}/batches"

    def check_writable(self) -> None:
        """Raises LakeError for a local root that cannot be written. A URI is tried by the first write."""
        if "://" in self.root and not self.root.startswith("file://"):
            return
        root = Path(self.root.removeprefix("file://"))
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=root):
                pass
        except OSError as error:
            hint = "Make the directory writable for the account that runs Spark, or name another lake."
            raise LakeError(f"the lake cannot be written: {error.strerror}", place=str(root), hint=hint) from error

    def state(self, path: str, app: str) -> TableState | None:
        """The table's state, None when there is no Delta table. Raises LakeError when its log cannot be read."""
        try:
            table = DeltaTable(path, storage_options=self.storage or None)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            hint = "Look at the table's _delta_log; restore it or move the table away."
            raise LakeError(f"the Delta table cannot be opened: {_first_line(error)}", place=path, hint=hint) from error
        columns = tuple(_column(field) for field in table.schema().fields)
        return TableState(
            table.version(), table.transaction_version(app), columns, dict(table.metadata().configuration)
        )

    def applied(self, path: str, apps: Sequence[str]) -> list[int | None]:
        """How far each app id has come in a table."""
        table = DeltaTable(path, storage_options=self.storage or None) if apps else None
        return [table.transaction_version(app) if table else None for app in apps]

    def commits(self, path: str) -> Iterator[dict[str, Any]]:
        """The table's commits as its log tells of them, the latest first."""
        table = DeltaTable(path, storage_options=self.storage or None)
        recent = table.history(20)
        yield from recent
        if len(recent) == 20:
            yield from table.history()[20:]

    def bytes_beyond(self, path: str, column: str, low: int, high: int) -> int:
        """The size of the files that have no value of an integer column from `low` to `high`, as far as known."""
        files = pa.table(DeltaTable(path, storage_options=self.storage or None).get_add_actions(flatten=True))
        least, most = f"min.{column}", f"max.{column}"
        if least not in files.column_names or most not in files.column_names:
            return 0
        named = (files.column(name).to_pylist() for name in (least, most, "size_bytes"))
        known = ((a, b, size) for a, b, size in zip(*named, strict=True) if a is not None and b is not None)
        return sum(size for a, b, size in known if b < low or a > high)

    def create(
        self, spark: SparkSession, path: str, destination: str, schema: TableSchema, columns: Sequence[LakeColumn]
    ) -> None:
        """Makes the table on first sight, with comments, key and owner recorded."""
        self.check_writable()
        properties = {
            "sluice.destination": destination,
            "sluice.table": schema.name,
            "sluice.primary_key": json.dumps(list(schema.primary_key)),
            "sluice.schema_version": schema.version,
            "sluice.complete": str(self.complete).lower(),
            "delta.enableDeletionVectors": "true",
        }
        if needs_mapping(columns):
            properties["delta.columnMapping.mode"] = "name"
        listed = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
        comment = f" COMMENT {literal(schema.comment)}" if schema.comment else ""
        body = ", ".join(column.ddl for column in columns)
        spark.sql(f"CREATE TABLE delta.{quote(path)} ({body}) USING delta{comment} TBLPROPERTIES ({listed})")

    def add_columns(
        self,
        spark: SparkSession,
        path: str,
        schema: TableSchema,
        columns: Sequence[LakeColumn],
        added: Sequence[LakeColumn],
        old_rows: Mapping[str, str],
    ) -> None:
        """Adds columns where the source has them, notes the new schema's version, and what `fill` must still do."""
        name = f"delta.{quote(path)}"
        if old_rows:
            spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{_FILL}' = {literal(json.dumps(old_rows))})")
        if needs_mapping(added):
            spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        if any(column.type == "timestamp_ntz" for column in added):
            spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
        names = [column.name for column in columns]
        placed = []
        for column in added:
            index = names.index(column.name)
            placed.append(f"{column.ddl} {f'AFTER {quote(names[index - 1])}' if index else 'FIRST'}")
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({', '.join(placed)})")
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('sluice.schema_version' = {literal(schema.version)})")

    def fill(self, spark: SparkSession, path: str, state: TableState) -> None:
        """Gives old rows their values of columns that came. Noted before the columns are added and struck out when
        it is done, before any batch has written to them: doing it again changes nothing."""
        columns = {column.name for column in state.columns}
        sets = [f"{quote(name)} = {text}" for name, text in state.unfilled.items() if name in columns]
        if sets:
            spark.sql(f"UPDATE delta.{quote(path)} SET {', '.join(sets)}")  # noqa: S608
        spark.sql(f"ALTER TABLE delta.{quote(path)} UNSET TBLPROPERTIES IF EXISTS ('{_FILL}')")


def check_owner(state: TableState, destination: str, schema: TableSchema, path: str) -> None:
    """Raises TableStopped when the Delta table at `path` is not this destination's."""
    owner, table = state.properties.get("sluice.destination"), state.properties.get("sluice.table")
    if owner != destination or table != schema.name:
        whose = f"belongs to destination {owner!r}, table {table!r}" if owner else "was not made by Sluice"
        hint = "Name another lake for this destination, or move that table away. Nothing was written to it."
        raise TableStopped(f"the Delta table {whose}", place=path, hint=hint)


@contextmanager
def lake_errors(place: str) -> Iterator[None]:
    """Turns what Spark says about storage into a LakeError with place and remedy. A server that is away passes on."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        if is_gone(error):
            raise
        told = _OURS.search(text)
        if told and told[1] == "RangeGone":
            hint = "Claim again: the range is given out anew from the last ack."
            raise RangeGone("the claim was given back while it was read", place=place, hint=hint) from error
        if told and told[1] in ("DecodeError", "SchemaError"):
            hint = "The batch stays claimable; the service's page shows the same error."
            message = told[2][:500].rstrip(". ")
            raise error_from({"error": told[1], "message": message, "place": place, "hint": hint}) from error
        hint = "Read the Spark server's log for the whole of it; the batch stays claimable."
        if any(word in text for word in _SPACE):
            hint = "The disk is full: make room in the lake and in Spark's scratch; the batch stays claimable."
        elif any(word in text for word in _DENIED):
            hint = "Make the lake writable for the account that runs Spark; the batch stays claimable."
        words = told[0][:500] if told else _first_line(error)
        raise LakeError(f"Spark failed: {words}", place=place, hint=hint) from error


def _folder(name: str) -> str:
    return percent(name, safe=_SAFE) if name.strip(".") else name.replace(".", "%2E")


def _column(field: Any) -> LakeColumn:
    return LakeColumn(field.name, delta_type(field.type), str(field.metadata.get("comment", "")))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:500]

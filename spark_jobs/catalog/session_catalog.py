"""One catalog of a Spark session: what it has, and the statements that register and drop external tables and make
views."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import ConfigError, LakeError
from spark_jobs.catalog.plan import Entry, Key, Wanted, mark_of, plain
from spark_jobs.lake.catalog_names import METASTORE, SPARK_CATALOG, CatalogName
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.sql import literal
from spark_jobs.session import is_gone
from spark_jobs.stores import location

_TYPE = re.compile(r"^Type: (\w+)", re.MULTILINE)  # before the comment, which may hold any line
_LOCATION = re.compile(r"^Location: (.+)$", re.MULTILINE)  # after it
_PROPERTY = "sluice.log"  # of a view: which log it reads
_MARK = re.compile(r"^Table Properties: \[(?:.*, )?sluice\.log=([0-9a-f]{32})(?:, .*)?\]$", re.MULTILINE)
_ODD = re.compile(r"\W")  # Spark takes the pattern of a name for a regular expression
_NO_DATABASE = ("SCHEMA_NOT_FOUND", "NO_SUCH_NAMESPACE")
_AWAY = (
    "Check that the catalog runs, and its settings in Spark. Batches go on meanwhile; the tables are registered when "
    "it answers."
)


@dataclass(slots=True)
class SessionCatalog:
    """The catalog `name`. A session that Spark no longer has raises Spark's own errors, which `Sessions` translates."""

    spark: SparkSession
    name: str
    _databases: set[str] = field(default_factory=set)

    def entries(self, databases: Collection[str]) -> dict[Key, Entry]:
        """Returns the tables and views of these databases; a database that is not there has none. Opens no table, and
        needs no Spark job. Raises ConfigError for a catalog that the session does not know, LakeError for one that does
        not answer."""
        self._check_known()
        found: dict[Key, Entry] = {}
        for database in sorted(set(databases)):
            try:
                entries = shown(self.spark, CatalogName(self.name, database, ""))
            except PySparkException as error:
                if _says(error, _NO_DATABASE):
                    continue
                raise self._away(error) from error
            self._databases.add(database)
            found |= {entry.name.key: entry for entry in entries}
        return found

    def is_in(self, root: str) -> bool:
        """Whether the catalog's own metastore is in the lake at this path, and moves with it."""
        warehouse = self.spark.conf.get("spark.sql.warehouse.dir", "") or ""
        return self.name == SPARK_CATALOG and plain(warehouse).startswith(f"{plain(location(root))}/{METASTORE}/")

    def register(self, table: Wanted) -> None:
        """Makes an external table at the path, with the columns and properties of the Delta table there, which gets no
        commit. Raises LakeError."""
        name = table.name
        comment = f" COMMENT {literal(table.comment)}" if table.comment else ""
        try:
            if name.database not in self._databases:
                self.spark.sql(f"CREATE DATABASE IF NOT EXISTS {name.namespace}")
                self._databases.add(name.database)
            self.spark.sql(f"CREATE TABLE {name.sql} USING delta{comment} LOCATION {literal(table.path)}")
        except PySparkException as error:
            raise self._failed(f"{table.table} is not registered", name, error) from error

    def drop(self, entry: Entry) -> None:
        """Drops a view, or an external table, whose files stay. Raises LakeError."""
        assert entry.view or entry.external
        kind = "VIEW" if entry.view else "TABLE"
        try:
            self.spark.sql(f"DROP {kind} IF EXISTS {entry.name.sql}")
        except PySparkException as error:
            raise self._failed(f"a {kind.lower()} is not dropped", entry.name, error) from error

    def _check_known(self) -> None:
        if self.name != SPARK_CATALOG and not self.spark.conf.get(f"spark.sql.catalog.{self.name}", ""):
            hint = f"Start Spark with spark.sql.catalog.{self.name}, or name spark_catalog, which each Spark has."
            raise ConfigError("Spark's session has no such catalog", place=self.name, hint=hint)

    def _away(self, error: PySparkException) -> Exception:
        text = f"the catalog does not answer: {first_line(error)}"
        return error if is_gone(error) else LakeError(text, place=self.name, hint=_AWAY)

    def _failed(self, what: str, name: CatalogName, error: PySparkException) -> Exception:
        hint = "Give Spark's account the right to it, or choose another name by `catalog` in defs.yaml."
        return error if is_gone(error) else LakeError(f"{what}: {first_line(error)}", place=str(name), hint=hint)


def shown(spark: SparkSession, name: CatalogName) -> list[Entry]:
    """Returns what a database has by a name; all if the name has no table. A catalog without a name is the session's
    current one. Raises Spark's errors."""
    pattern = _ODD.sub(".", name.table) if name.table else "*"
    rows = spark.sql(f"SHOW TABLE EXTENDED IN {name.namespace} LIKE {literal(pattern)}").collect()
    named = {row["tableName"]: row["information"] for row in rows if not row["isTemporary"]}
    entries = [_entry(CatalogName(name.catalog, name.database, table), text) for table, text in named.items()]
    return [entry for entry in entries if not name.table or entry.name.key == name.key]


@dataclass(frozen=True, slots=True)
class View:
    """A view of Sluice's: its `name`, the path of the Delta table that it reads, its query and a comment on it."""

    name: CatalogName
    path: str
    query: str
    comment: str = ""


def make_view(spark: SparkSession, name: CatalogName, log: str, query: str) -> None:
    """Makes the view that reads the change log at a path, or replaces it. What Sluice did not make for that log is left
    alone: raises LakeError. Raises Spark's errors."""
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {name.namespace}")
    own = _is_own(shown(spark, name), name, log)
    _create(spark, View(name, log, query), replace=own)


def replace_views(spark: SparkSession, views: Collection[View], gone: Mapping[CatalogName, str]) -> None:
    """Makes views that belong together in the place of former ones, of which none is there any more when the first new
    one is: a query of several fails rather than to read both. `gone`: views that are dropped only, and the paths that
    they read. What Sluice did not make is left alone: raises LakeError, before anything is dropped. Raises Spark's
    errors."""
    paths = {one.name: one.path for one in views}
    there = list[Entry]()
    for database in {CatalogName(name.catalog, name.database, "") for name in (*paths, *gone)}:
        if database.database in {name.database for name in paths}:
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {database.namespace}")
        if spark.catalog.databaseExists(database.namespace):
            there += shown(spark, database)
    former = [name for name, path in paths.items() if _is_own(there, name, path)]
    former += [name for name, path in gone.items() if _has_own(there, name, path)]
    _drop(spark, former)
    made = list[CatalogName]()
    try:
        for one in views:
            _create(spark, one, replace=False)
            made.append(one.name)
    except PySparkException:
        with suppress(PySparkException):
            _drop(spark, made)
        raise


def drop_view(spark: SparkSession, name: CatalogName, log: str) -> None:
    """Drops the view that reads the change log at a path, if Sluice made it. Raises Spark's errors."""
    there = shown(spark, name) if spark.catalog.databaseExists(name.namespace) else []
    if any(entry.stands_for(log, view=True) for entry in there):
        spark.sql(f"DROP VIEW IF EXISTS {name.sql}")


def _drop(spark: SparkSession, names: Collection[CatalogName]) -> None:
    for name in names:
        spark.sql(f"DROP VIEW IF EXISTS {name.sql}")


def _is_own(there: Collection[Entry], name: CatalogName, path: str) -> bool:
    """Whether Sluice made what has the name, for that path. Raises LakeError if somebody else did."""
    if _has_own(there, name, path):
        return True
    for one in (entry for entry in there if entry.name.key == name.key):
        if one.name.table == name.table:
            hint = "Give it another name by the templates of `catalog` in defs.yaml, or drop what has the name."
            raise LakeError(f"the catalog has {one} by that name", place=str(name), hint=hint)
    return False


def _has_own(there: Collection[Entry], name: CatalogName, path: str) -> bool:
    return any(one.name.key == name.key and one.stands_for(path, view=True) for one in there)


def _create(spark: SparkSession, view: View, *, replace: bool) -> None:
    verb = "CREATE OR REPLACE VIEW" if replace else "CREATE VIEW"  # which fails where another one is, or comes first
    comment = f" COMMENT {literal(view.comment)}" if view.comment else ""
    mark = f"TBLPROPERTIES ('{_PROPERTY}' = '{mark_of(view.path)}')"
    spark.sql(f"{verb} {view.name.sql}{comment} {mark} AS {view.query}")


def _entry(name: CatalogName, information: str) -> Entry:
    kind, places = _TYPE.search(information), _LOCATION.findall(information)
    if kind is not None and kind[1] == "VIEW":
        marks = _MARK.findall(information)
        return Entry(name, view=True, mark=marks[-1] if marks else "")
    return Entry(name, places[-1].strip() if places else "", kind is not None and kind[1] == "EXTERNAL")


def _says(error: PySparkException, conditions: Collection[str]) -> bool:
    return error.getCondition() in conditions or any(f"[{one}" in str(error) for one in conditions)

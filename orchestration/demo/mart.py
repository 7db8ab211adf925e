"""A mart downstream of the lake: one query over some tables as of one transaction becomes a table of the catalog.

A component of Dagster's: one `defs.yaml`, one asset, which depends on the Delta tables that it reads. Dagster runs it
by itself when one of them was materialized, and shows it behind them in the graph.
"""

# No `from __future__ import annotations`: Dagster reads the annotations of ops as objects.

import os
from collections.abc import Iterator, Sequence

import dagster as dg

from orchestration.names import PLACE, Names
from orchestration.trees import settings_beside
from spark_jobs.as_of.as_of import NotAsOf, TablesAsOf, as_of
from spark_jobs.as_of.views import SUFFIX, queries_as_of
from spark_jobs.catalog.notes import noted_rules
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.sql import quote
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.session import Sessions

CHECK = "of_one_transaction"
_SECONDS = 30  # between two looks at what was materialized
# A run that drains goes on for long and materializes its tables meanwhile; as of a place they can be read all the same.
_EAGER = dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_in_progress())


class SqlMart(dg.Component, dg.Model, dg.Resolvable):
    """The table `table` of the catalog, made of `query`. In it, `{shop.orders}` is a table of the lake as of the place,
    which must be one of `tables`. `contradictions` is a query for the number of rows that cannot be in tables of the
    same transaction."""

    table: str
    destination: str
    lake: str
    tables: list[str]
    query: str
    contradictions: str = ""
    spark: str = "sc://127.0.0.1:15002"
    spark_token_env: str = "SPARK_CONNECT_TOKEN"  # noqa: S105
    client_id: int = 1001

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        own = (self.destination, self.client_id)
        beside = (one.names for one in settings_beside(context) if (one.destination, one.client_id) == own)
        asset = mart_asset(self, next(beside, None))
        sensor = dg.AutomationConditionSensorDefinition(
            f"{_name(self)}_refresh",
            target=dg.AssetSelection.assets(_key(self)),
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=_SECONDS,
            description=f"Makes {self.table} again when a table that it reads was materialized.",
        )
        return dg.Definitions(assets=[asset], sensors=[sensor])


def mart_asset(mart: SqlMart, names: Names | None = None) -> dg.AssetsDefinition:
    """Returns the asset, with a check that its tables are of one transaction. `names`: of its destination, if they are
    not those without a translation."""
    names = names or Names(mart.destination)
    spec = dg.AssetSpec(
        _key(mart),
        deps=[names.delta(table) for table in mart.tables],
        description=f"Made of {', '.join(mart.tables)}, all as of the same transaction.",
        kinds={"spark", "sql"},
        group_name=names.safe,
        metadata={"dagster/table_name": mart.table, "query": dg.MetadataValue.md(f"```sql\n{mart.query}\n```")},
        automation_condition=_EAGER,
        skippable=True,
    )
    checks = [dg.AssetCheckSpec(CHECK, asset=_key(mart))] if mart.contradictions else []

    @dg.multi_asset(name=_name(mart), specs=[spec], check_specs=checks)
    def made(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        rules = noted_rules(Lake(mart.lake), mart.destination, mart.client_id)
        tables = ClientTables(Lake(mart.lake, catalog=rules), mart.destination, mart.client_id)
        found, why = _found(tables, mart.tables)
        if found is not None:
            yield _made(mart, tables, found)
            return
        context.log.warning(f"{mart.table} stays as it is: {why}")
        if mart.contradictions:
            yield dg.AssetCheckResult(
                passed=False, severity=dg.AssetCheckSeverity.WARN, description=f"The table stays as it is: {why}"
            )

    return made


def _found(tables: ClientTables, names: Sequence[str]) -> tuple[TablesAsOf | None, str]:
    """Returns the tables as of the last place that all have; or None and why, such as before the last of their
    snapshots is done."""
    try:
        found = as_of(tables, "latest", names)
    except NotAsOf as error:
        return None, str(error)
    missing = "; ".join(f"{table}: {why}" for table, why in found.absent.items())
    return (None, missing) if missing else (found, "")


def _made(mart: SqlMart, tables: ClientTables, found: TablesAsOf) -> dg.MaterializeResult[None]:
    queries = queries_as_of(tables, found)
    name = ".".join(map(quote, mart.table.split(".")))
    with (
        Sessions(mart.spark, os.environ.get(mart.spark_token_env, "")) as sessions,
        sessions.take() as spark,
        lake_errors(mart.table),
    ):
        for table, query in queries.items():
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_view(table)} AS {query}")
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {name.rpartition('.')[0]}")
        spark.sql(f"CREATE OR REPLACE TABLE {name} USING delta AS {_with_views(mart.query, mart.tables)}")
        rows = spark.table(name).count()
        wrong = spark.sql(_with_views(mart.contradictions, mart.tables)).collect()[0][0] if mart.contradictions else 0
    versions = {table: chosen.version for table, chosen in found.tables.items()}
    metadata = {"rows": rows, "position": found.position, PLACE: found.as_dict()["place"], "versions": versions}
    check = dg.AssetCheckResult(passed=not wrong, check_name=CHECK, metadata={"contradictions": int(wrong)})
    return dg.MaterializeResult(
        asset_key=_key(mart), metadata=metadata, check_results=[check] if mart.contradictions else []
    )


def _with_views(query: str, tables: Sequence[str]) -> str:
    """Returns the query with the names of views in the place of `{database.table}`."""
    for table in tables:
        query = query.replace(f"{{{table}}}", _view(table))
    return query


def _view(table: str) -> str:
    """Returns the name of a view of the run's session: nobody else makes it as of another place meanwhile."""
    return quote(f"{table}{SUFFIX}")


def _key(mart: SqlMart) -> dg.AssetKey:
    return dg.AssetKey(["mart", *mart.table.split(".")])


def _name(mart: SqlMart) -> str:
    return f"mart_{mart.table.replace('.', '_')}"

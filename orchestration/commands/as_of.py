"""`sluice now --as-of`: the tables of a destination as of one place, as views, or the Delta version of each."""

from __future__ import annotations

import json
from collections.abc import Sequence

from spark_jobs.as_of.as_of import TablesAsOf, as_of
from spark_jobs.as_of.views import as_of_sql, as_of_view, make_views
from spark_jobs.catalog.notes import noted_rules
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.session import Sessions
from spark_jobs.union.named import with_shards
from spark_jobs.union.settled import noted_unions


def run(
    destination: str,
    tables: Sequence[str],
    lake: str,
    client: int,
    asked: str,
    spark: str,
    spark_token: str,
    *,
    nearest: bool,
    create: bool,
    as_json: bool,
) -> int:
    """Prints a statement for each table, or one JSON object; with `create`, also makes the views in Spark. Raises
    NotAsOf if a table has no version of the place."""
    names, unions = noted_rules(Lake(lake), destination, client), noted_unions(Lake(lake), destination)
    own = ClientTables(Lake(lake, catalog=names, unions=unions), destination, client)
    found = as_of(own, asked, with_shards(own.lake, tables), nearest=nearest)
    if create:
        with Sessions(spark, spark_token) as sessions, sessions.take() as session, lake_errors(lake):
            make_views(session, own, found)
    if as_json:
        print(json.dumps(_facts(own, found)), flush=True)
    else:
        _show(own, found)
    return 0


def _facts(tables: ClientTables, found: TablesAsOf) -> dict[str, object]:
    facts = found.as_dict()
    for name, chosen in found.tables.items():
        facts["tables"][name] |= {"view": as_of_view(tables, name), "sql": as_of_sql(tables, chosen)}
    return facts


def _show(tables: ClientTables, found: TablesAsOf) -> None:
    print(f"-- as of {found.position}")
    for name, chosen in found.tables.items():
        print(f"CREATE OR REPLACE VIEW {as_of_view(tables, name)} AS {as_of_sql(tables, chosen)};")
    for name, why in found.absent.items():
        print(f"-- {name}: {why}")
    print(end="", flush=True)

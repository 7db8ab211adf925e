"""`sluice now`: the SQL of the views that show landed tables as of the end of their logs, for any Spark with Delta."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cdc_core.errors import LakeError
from spark_jobs.catalog.notes import noted_rules
from spark_jobs.following.now import now_sql, view_name
from spark_jobs.following.pending import Follows
from spark_jobs.lake.tables import Lake
from spark_jobs.union.named import with_shards
from spark_jobs.union.settled import noted_unions


def run(destination: str, tables: Sequence[str], lake: str, client: int, *, as_json: bool) -> int:
    """Prints one statement for each table, or a line of JSON; for all tables with a log if none is named. The SQL stays
    exact until the table is reloaded or changes its columns; newer SQL reads less of the log.

    Raises TableStopped for a table without a log, LakeError if the lake has no log.
    """
    names, unions = noted_rules(Lake(lake), destination, client), noted_unions(Lake(lake), destination)
    follows = Follows(Lake(lake, catalog=names, unions=unions), destination, client)
    named = with_shards(follows.lake, tables) or follows.lake.logs(destination)
    if not named:
        hint = "Name the lake of a destination with `apply: land_first`, once a run has landed changes."
        raise LakeError(f"no table of {destination} has a change log", place=lake, hint=hint)
    for table in named:
        view, query = view_name(follows, table).sql, now_sql(follows, table)
        if as_json:
            print(json.dumps({"table": table, "view": view, "sql": query}), flush=True)
        else:
            print(f"CREATE OR REPLACE VIEW {view} AS {query};", flush=True)
    return 0

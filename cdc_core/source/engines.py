"""Captured tables whose storage engine does not keep the rows that the binlog has.

Sources: MySQL manual, "The BLACKHOLE Storage Engine", "The MERGE Storage Engine", "The FEDERATED Storage Engine".
"""

from __future__ import annotations

from typing import Any

from cdc_core.schema.names import full_name
from cdc_core.source.connection import Connection
from cdc_core.source.logged import Captured

_WHY = {
    "BLACKHOLE": "the server logs rows that it does not keep, so the lake has rows that the source lacks",
    "MRG_MYISAM": "a row that is written to one of its parts is not logged as a row of its own, so the lake lacks it",
    "FEDERATED": "its rows are on another server, whose own changes are not in this binlog",
}


def engine_warnings(conn: Connection, captured: Captured) -> list[str]:
    """One for each captured table whose lake cannot be what the source shows."""
    engines = ", ".join(f"'{engine}'" for engine in _WHY)
    with conn.cursor() as cursor:
        cursor.execute(
            "SELECT table_schema, table_name, engine FROM information_schema.tables "  # noqa: S608
            f"WHERE engine IN ({engines}) ORDER BY table_schema, table_name"
        )
        found: tuple[tuple[Any, ...], ...] = tuple(cursor.fetchall())
    return [
        f"{full_name(database, table)} has the engine {engine}: {_WHY[str(engine).upper()]}. "
        "Leave it out with canal.instance.filter.black.regex"
        for database, table, engine in found
        if captured(database, table)
    ]

"""What the catalog should have, by the lake's folders and logs; and whether something is owed, by folders alone.

Logs are read with delta-rs, without Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from cdc_core.errors import TableStopped
from cdc_core.schema.names import full_name, split_name
from spark_jobs.catalog.notes import Standing
from spark_jobs.catalog.plan import NOW, Kind, Wanted
from spark_jobs.lake.catalog_names import CatalogRules
from spark_jobs.lake.folders import name_of
from spark_jobs.lake.state import DESTINATION, HISTORY, LOG, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.stores import location

SHOWN = 3  # names in a text


@dataclass(frozen=True, slots=True)
class Found:
    """The lake's tables and views that a catalog should have; the folders of all Delta tables; and the paths of those
    that cannot be read, with their change logs'."""

    wanted: Sequence[Wanted]
    folders: frozenset[str]
    unreadable: frozenset[str]


def found(lake: Lake, destination: str, rules: CatalogRules) -> Found:
    """Returns the tables, change logs, histories and views of a destination, with the names that they should have. Of
    a union's tables that is the union. A dropped table whose rows are gone, or have another name now, is not one of
    them. Raises LakeError."""
    wanted, live, folders, unreadable = [], set(), set(), set()
    unions = {lake.path(*split_name(one.table)) for one in lake.unions.all}
    for folder in lake.folders():
        path = f"{lake.root}/{folder}"
        database, table = map(name_of, folder.split("/"))
        try:
            state = lake.state(path, "")
        except TableStopped:
            unreadable.add(location(path))
            folders.add(folder)
            continue
        if state is None:
            continue
        folders.add(folder)
        if not state.dropped:
            live.add(location(path))
        owner = state.properties.get(DESTINATION, destination if path in unions else "")
        if owner == destination and not (state.dropped and _is_empty(lake, path)):
            name = rules.name(destination, database, table)
            wanted.append(Wanted(full_name(database, table), _kind(state), name, location(path), state.comment))
    for log in [one for one in wanted if one.kind is Kind.LOG]:
        path = location(lake.path(*split_name(log.table.removesuffix("__log"))))
        if path in unreadable:
            unreadable.add(log.path)
        elif path in live:
            wanted.append(_view(log, destination, rules))
    return Found(wanted, frozenset(folders), frozenset(unreadable))


def owed(lake: Lake, rules: CatalogRules, noted: Standing, clock: Callable[[], float] = time.time) -> str:
    """Returns why the catalog must be looked at, or "". Raises LakeError."""
    if noted.rules != rules:
        return f"the names in the catalog {rules.catalog} are new"
    if noted.owed != noted.done:
        return "DDL statements changed tables"
    if noted.root and noted.root != location(lake.root):
        return f"the lake was at {noted.root}"
    there = set(lake.folders())
    new = sorted(one for one in there - noted.seen if lake.has(*map(name_of, one.split("/"))))
    if new:
        return f"the lake has {_listed(new)} that the catalog may lack"
    gone = sorted(noted.seen - there)
    if gone:
        return f"the lake no longer has {_listed(gone)}"
    return "some tables could not be registered" if noted.again and clock() >= noted.again else ""


def folder_at(lake: Lake, path: str) -> str:
    """Returns the folder of a table below the lake's root."""
    return path.removeprefix(location(lake.root)).lstrip("/")


def table_at(lake: Lake, path: str) -> str:
    """Returns the table, `database.table`, that a path is for."""
    database, table = folder_at(lake, path).split("/")
    return full_name(name_of(database), name_of(table))


def followed(view: Wanted) -> str:
    """Returns the table, `database.table`, that a view shows."""
    return view.table.removesuffix(NOW)


def _view(log: Wanted, destination: str, rules: CatalogRules) -> Wanted:
    """Returns the view of the table that follows a log."""
    database, name = split_name(log.table.removesuffix("__log") + NOW)
    return Wanted(full_name(database, name), Kind.VIEW, rules.name(destination, database, name), log.path)


def _kind(state: TableState) -> Kind:
    if LOG in state.properties:
        return Kind.LOG
    return Kind.HISTORY if HISTORY in state.properties else Kind.TABLE


def _is_empty(lake: Lake, path: str) -> bool:
    try:
        files = pa.table(lake.open(path).get_add_actions())
    except (DeltaError, OSError):
        return False
    return not files.num_rows or pc.sum(files.column("num_records")).as_py() == 0


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return f"{', '.join(names[:SHOWN])}{f' and {more} more' if more > 0 else ''}"

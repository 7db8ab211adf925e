"""Tables to be registered, what a registration reports of them, and what a catalog then shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

from cdc_core.errors import SluiceError
from orchestration.verbs.access import Access
from orchestration.verbs.orders import Register
from orchestration.verbs.report import Done, Kind, Report
from spark_jobs.lake.catalog_names import CatalogRules
from spark_jobs.lake.state import DESTINATION
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions


@dataclass
class Said(Report):
    """`done` and `failed` by table, without its database."""

    done: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def one(self, name: str, work: Callable[[], Done], kind: Kind = "delta") -> None:  # noqa: ARG002
        self.done[name] = work().text

    def each(
        self,
        name: str,
        work: Callable[[], Done],
        kind: Kind = "delta",  # noqa: ARG002
        otherwise: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> None:
        table = name.rpartition(".")[2]
        try:
            done = work()
        except SluiceError as error:
            self.failed[table] = str(error)
            return
        (self.done if done.good else self.failed)[table] = done.text

    def progress(self, text: str) -> None: ...


def register(lake: Lake, remote: str, rules: CatalogRules, destination: str = "shop") -> Said:
    """One registration. Raises LakeError as it does."""
    said = Said()
    known = Lake(lake.root, storage=lake.storage, catalog=rules, unions=lake.unions)
    Register().run(Access(destination, 1001, _nobody, lambda: Sessions(remote), known), said)
    return said


def rows(sessions: Sessions, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query, in order."""
    with sessions.take() as spark:
        return sorted(tuple(row) for row in spark.sql(sql).collect())


def names(sessions: Sessions, database: str) -> set[str]:
    """The tables and views of a database."""
    found = rows(sessions, f"SHOW TABLES IN {database}")
    return {table for _, table, is_temporary in found if not is_temporary}


def made(lake: Lake, table: str, rows: int = 1, **properties: str) -> Path:
    """A Delta table of the destination `shop`, or with other properties."""
    path = Path(lake.path("shop", table))
    known = {DESTINATION: "shop"} | {name.replace("__", "."): text for name, text in properties.items()}
    schema = Schema([Field("id", PrimitiveType("long"))])
    of = f"of {table}"
    DeltaTable.create(str(path), schema, description=of, configuration=known, raise_if_key_not_exists=False)
    if rows:
        write_deltalake(str(path), pa.table({"id": pa.array(range(rows), pa.int64())}), mode="append")
    return path


@contextmanager
def _nobody() -> Iterator[Any]:
    """Registration asks no service."""
    raise AssertionError
    yield

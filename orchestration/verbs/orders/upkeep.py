"""The models of the verbs that maintain, register and compare tables."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from orchestration.verbs.orders.order import ALL, Cli, Order, Tables
from spark_jobs.lake.catalog_names import check_catalog


class Maintain(Order):
    """Rewrite small files of the lake's tables, change logs and histories as large ones, and delete old ones.

    The stream goes on meanwhile. Files that a version of the last week needs are kept. A table that fails does not stop
    the others."""

    VERB, POOL = "maintain", "own"
    SUMS = ("files_deleted",)

    tables: Tables = Field([], description=ALL)
    readers: bool = Field(
        False,
        description="Also give tables their declared layout and features: docs/readers.md.",
    )
    log_retention: str = Field(
        "", description="How long change logs keep rows that their tables have: 30d, 8w. Default: as in defs.yaml."
    )
    freshness: str = Field(
        "",
        description="The freshness in defs.yaml; the job knows it, and the command by --defs. With asap a run is "
        "always active, and files are rewritten only while the command can hold a claim.",
    )


class Register(Order):
    """Register the lake's tables, change logs and histories in a catalog, as external tables at their paths.

    It makes missing names and drops names that are no longer right. It touches no file, and no table that Sluice did
    not register. The stream goes on meanwhile."""

    VERB, POOL = "register", "own"

    catalog: str = Field("", description="A catalog of Spark's session. Default: the one of the last registration.")

    @field_validator("catalog")
    @classmethod
    def _is_catalog(cls, name: str) -> str:
        if name:
            check_catalog(name)
        return name


class Verify(Order):
    """Compare source and lake, table by table, while others write.

    `repair` corrects rows that differ in tables with a key. Tables without a key are only compared."""

    VERB, POOL = "verify", "own"
    SUMS = ("repaired",)

    tables: Annotated[list[str], Cli("--table")] = Field(
        [],
        description="database.table, one or more. Default: all captured tables, and those that only the lake has.",
    )
    repair: bool = Field(False, description="Correct the rows that differ; needs Spark.")
    timeout_seconds: Annotated[float, Cli("--timeout")] = Field(
        600, ge=0, description="Seconds to wait until the lake has caught up, for each table."
    )

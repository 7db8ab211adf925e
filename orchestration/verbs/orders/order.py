"""What the models of all verbs share: the base class, how a field is written in a terminal, and common fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import BaseModel, PrivateAttr, field_validator

from cdc_core.errors import SluiceError
from cdc_core.schema.names import split_name
from orchestration.verbs.access import Access
from orchestration.verbs.report import Done, Report

Pool = Literal["drain", "merges", "own"]
WHOLE = "*"  # the destination, where a table could be named


@dataclass(frozen=True, slots=True)
class Cli:
    """How a field is written in a terminal: by this flag, as an argument of that name, or else as `--its-name`."""

    flag: str = ""
    argument: str = ""
    metavar: str | None = None


Tables = Annotated[list[str], Cli(argument="table")]
Table = Annotated[str, Cli(argument="table")]
ReadOn = Annotated[str, Cli(metavar="driver|executors")]
DryRun = Annotated[bool, Cli("--dry-run/--yes")]
SOME = "database.table, one or more."
ALL = "database.table, one or more. Default: all captured tables."
ONLY_SHOW = "Only show what would be done, which is the default; or do it."


class Order(BaseModel):
    """What a person asks for."""

    VERB: ClassVar[str]
    """The name of the command and of the module that runs it; the job's name begins with it."""
    POOL: ClassVar[Pool] = "drain"
    """The runs that this one waits for: those that drain, those that merge logs, or only others of its job."""
    SUMS: ClassVar[tuple[str, ...]] = ()
    """The facts of tables that a run's summary adds up."""
    READS: ClassVar[bool] = True
    """Whether it may read rows of the source. Then the service must have the rules of defs.yaml first; otherwise the
    verb also works while the source has failed."""
    BY_SHARDS: ClassVar[bool] = True
    """Whether a union among its tables means all of its shards."""

    _by_union: frozenset[str] = PrivateAttr(frozenset())

    @property
    def by_union(self) -> frozenset[str]:
        """The tables that it names by their union alone."""
        return self._by_union

    @property
    def action(self) -> str:
        """The word for the action in the history of an asset."""
        return f"{self.VERB}, dry run" if getattr(self, "dry_run", False) else self.VERB

    @field_validator("tables", check_fields=False)
    @classmethod
    def _each_once(cls, tables: list[str]) -> list[str]:
        for table in tables:
            _check_name(table)
        return list(dict.fromkeys(tables))

    @field_validator("table", check_fields=False)
    @classmethod
    def _is_table(cls, table: str) -> str:
        if table != WHOLE:
            _check_name(table)
        return table

    @field_validator("read_on", check_fields=False)
    @classmethod
    def _is_reader(cls, read_on: str) -> str:
        if read_on not in ("", "driver", "executors"):
            raise ValueError("must be driver or executors")
        return read_on

    def by_shards(self, at: Access) -> Self:
        """Returns the order with the shards of each union that it names. Raises ConfigError for a union where one table
        is meant, and for one without shards."""
        from orchestration.verbs.shards import shards_meant

        if hasattr(self, "tables"):
            found = self.model_copy(update={"tables": shards_meant(at, self.tables, several=self.BY_SHARDS)})
            found._by_union = frozenset(found.tables) - {*self.tables}
            return found
        shards_meant(at, [getattr(self, "table", WHOLE)], several=False)
        return self

    def run(self, at: Access, report: Report) -> None:
        """Run the verb. A union stands for its shards, and is published again afterwards. Reports the outcome of each
        table, also that its union cannot have it; raises SluiceError for an error that concerns all of them."""
        module, order = import_module(f"orchestration.verbs.{self.VERB}"), self.by_shards(at)
        try:
            cast(Callable[[Order, Access, Report], None], module.run)(order, at, report)
        finally:
            refused = at.publish()
        for table in order._meant(refused):
            report.each(table, partial(_raised, refused[table]))

    def _meant(self, refused: Iterable[str]) -> list[str]:
        """Returns those of these tables that the order is about."""
        tables: list[str] | None = getattr(self, "tables", None)
        if tables is None or getattr(self, "dry_run", False):
            return []
        return [one for one in refused if not tables or one in tables]


def _raised(error: SluiceError) -> Done:
    raise error


def _check_name(table: str) -> None:
    """Raises ValueError for a text that does not name database and table."""
    try:
        split_name(table)
    except ValueError as error:
        raise ValueError(f"{error}; a database whose name has a dot is in backticks: `my.shop`.orders") from error

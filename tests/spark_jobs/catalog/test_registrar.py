"""A pass over a lake and a catalog that is a dictionary: what is noted when, without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from cdc_core.errors import LakeError
from spark_jobs.catalog.notes import CatalogNotes
from spark_jobs.catalog.plan import Entry, Key, Wanted, mark_of
from spark_jobs.catalog.registrar import Registrar
from spark_jobs.catalog.session_catalog import SessionCatalog
from spark_jobs.catalog.standing import owed
from spark_jobs.lake.catalog_names import CatalogRules
from spark_jobs.lake.state import LOG
from spark_jobs.lake.tables import Lake
from tests.support.registered import made

RULES = CatalogRules()


@dataclass
class Names:
    """A catalog. `in_lake`: it moves with the lake. A table in `refuses` cannot be registered."""

    there: dict[Key, Entry] = field(default_factory=dict)
    in_lake: bool = False
    refuses: str = ""

    def entries(self, databases: Collection[str]) -> dict[Key, Entry]:
        return {key: entry for key, entry in self.there.items() if entry.name.database in databases}

    def register(self, one: Wanted) -> None:
        if one.table == self.refuses:
            raise LakeError("no right to it", place=one.table, hint="")
        of_view = {"view": True, "mark": mark_of(one.path)}
        of_table = {"location": f"file:{one.path}", "external": True}
        self.there[one.name.key] = Entry(one.name, **(of_view if one.is_view else of_table))  # type: ignore[arg-type]

    def drop(self, entry: Entry) -> None:
        del self.there[entry.name.key]

    def is_in(self, root: str) -> bool:
        return self.in_lake and bool(root)

    @property
    def said(self) -> set[str]:
        return {f"{entry.name.database}.{entry.name.table}" for entry in self.there.values()}


def passed(lake: Lake, names: Names, rules: CatalogRules = RULES, *, killed: bool = False) -> Registrar:
    """After a pass; one that is `killed` makes its names, and says nothing."""
    work = Registrar(lake, CatalogNotes(lake, "shop", 1), rules, cast(SessionCatalog, names), lambda: 1000.0)
    work.look()
    work.begin()
    for stale in work.plan.stale:
        work.drop(stale)
    for one in work.plan.missing:
        if one.is_view:
            names.register(one)
        elif one.table != names.refuses:
            work.register(one)
    if not killed:
        work.settle()
    return work


def landed(root: Path) -> Lake:
    """A lake with a table and its log."""
    lake = Lake(root)
    made(lake, "t")
    made(lake, "t__log", **{LOG: "true"})
    return lake


def why(lake: Lake, rules: CatalogRules = RULES) -> str:
    return owed(lake, rules, CatalogNotes(lake, "shop", 1).read())


def test_what_a_killed_pass_made_follows_the_source(tmp_path: Path) -> None:
    """A name that was made, and not yet said to be, goes with its table; by other templates as well."""
    lake, names = landed(tmp_path), Names()
    passed(lake, names, killed=True)
    for table in ("t", "t__log"):
        (tmp_path / "shop" / table).rename(tmp_path / "shop" / table.replace("t", "u", 1))
    passed(lake, names)
    assert names.said == {"shop.u", "shop.u__log", "shop.u__now"}

    other = CatalogRules(database="lake_{database}")
    passed(lake, names, other, killed=True)
    shutil.rmtree(tmp_path / "shop" / "u")
    passed(lake, names)
    assert names.said == {"shop.u__log"}
    assert not why(lake)


def test_views_follow_their_tables(tmp_path: Path) -> None:
    """They move with the templates, and go with the table."""
    lake, names, other = landed(tmp_path), Names(), CatalogRules(database="lake_{database}")
    passed(lake, names)
    passed(lake, names, other)
    assert names.said == {"lake_shop.t", "lake_shop.t__log", "lake_shop.t__now"}

    for table in ("t", "t__log"):
        shutil.rmtree(tmp_path / "shop" / table)
    passed(lake, names, other)
    assert names.said == set()


def test_a_lake_that_is_moved_is_registered_anew(tmp_path: Path) -> None:
    """The catalog's entries are those of the old place, and Sluice's own."""
    names = Names()
    passed(landed(tmp_path / "lake"), names)
    lake = Lake((tmp_path / "lake").rename(tmp_path / "moved"))
    assert why(lake) == f"the lake was at {tmp_path / 'lake'}"

    plan = passed(lake, names).plan

    assert not plan.refused
    assert names.there["shop", "t"].location == f"file:{tmp_path / 'moved'}/shop/t"
    assert names.there["shop", "t__now"].mark == mark_of(f"{tmp_path / 'moved'}/shop/t__log")
    assert not why(lake)


def test_a_copy_of_a_lake_takes_no_names_from_it(tmp_path: Path) -> None:
    """In a catalog that both use: the copy is refused. With a metastore of its own, copied too, it gets its own."""
    names = Names()
    passed(landed(tmp_path / "lake"), names)
    copy = Lake(shutil.copytree(tmp_path / "lake", tmp_path / "copy"))

    assert set(passed(copy, names).plan.refused) == {"shop.t", "shop.t__log", "shop.t__now"}
    assert names.there["shop", "t"].location == f"file:{tmp_path / 'lake'}/shop/t"

    copy = Lake(shutil.copytree(tmp_path / "lake", tmp_path / "other"))
    names.in_lake = True
    assert not passed(copy, names).plan.refused
    assert names.there["shop", "t"].location == f"file:{tmp_path / 'other'}/shop/t"


def test_a_table_that_cannot_be_registered_is_no_reason_for_runs_without_end(tmp_path: Path) -> None:
    """The others are; it is tried again later, and at once when something changes."""
    lake, names = landed(tmp_path), Names(refuses="shop.t")
    assert not passed(lake, names).settle()
    noted = CatalogNotes(lake, "shop", 1).read()

    assert names.said == {"shop.t__log", "shop.t__now"}
    assert owed(lake, RULES, noted, lambda: 1001.0) == ""
    assert owed(lake, RULES, noted, lambda: 1e9) == "some tables could not be registered"
    names.refuses = ""
    assert passed(lake, names).settle()
    assert owed(lake, RULES, CatalogNotes(lake, "shop", 1).read(), lambda: 1e9) == ""


def test_names_in_another_catalog_are_remembered(tmp_path: Path) -> None:
    """One that is not named for a while follows the source when it is again."""
    lake, names, glue = landed(tmp_path), Names(), Names()
    passed(lake, names)
    passed(lake, glue, CatalogRules("glue"))
    for table in ("t", "t__log"):
        (tmp_path / "shop" / table).rename(tmp_path / "shop" / table.replace("t", "u", 1))
    passed(lake, glue, CatalogRules("glue"))
    passed(lake, names)

    assert names.said == glue.said == {"shop.u", "shop.u__log", "shop.u__now"}

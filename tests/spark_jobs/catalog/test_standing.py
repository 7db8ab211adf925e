"""What the lake's folders say that a catalog should have, and when it is looked at: without Spark."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError

from orchestration.settings import CatalogSettings, Settings
from orchestration.verbs.orders import Register
from spark_jobs.catalog.notes import CatalogNotes, NamedPlace, noted_rules
from spark_jobs.catalog.plan import Kind
from spark_jobs.catalog.standing import found, owed
from spark_jobs.lake.catalog_names import CatalogName, CatalogRules, catalog_from, catalog_json
from spark_jobs.lake.state import DESTINATION, HISTORY, LOG
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.stores import location
from spark_jobs.union.publish import publish
from tests.support.registered import made

RULES = CatalogRules()


def test_tables_logs_histories_and_views_of_the_destination_are_wanted(tmp_path: Path) -> None:
    """Not what is another's, damaged, or no Delta table; nor a dropped table whose rows are gone."""
    lake = Lake(tmp_path)
    paths = [made(lake, "a"), made(lake, "a__log", **{LOG: "true"}), made(lake, "a__history", **{HISTORY: "0"})]
    kept = made(lake, "kept", sluice__dropped="x:4")
    made(lake, "gone", 0, sluice__dropped="x:4")
    made(lake, "theirs", **{DESTINATION: "other"})
    damaged = made(lake, "damaged")
    (damaged / "_delta_log" / f"{0:020}.json").write_text("nothing")
    (tmp_path / "shop" / "files").mkdir()

    answer = found(lake, "shop", RULES)

    assert {(one.path, one.kind, one.comment) for one in answer.wanted} == {
        (str(paths[0]), "table", "of a"),
        (str(paths[1]), "log", "of a__log"),
        (str(paths[2]), "history", "of a__history"),
        (str(kept), "table", "of kept"),
        (str(paths[1]), "view", ""),
    }
    assert answer.unreadable == {str(damaged)}
    assert "shop/files" not in answer.folders


def test_a_union_is_wanted_and_none_of_its_shards(tmp_path: Path) -> None:
    """Once it has rows. Where `into` does not name it, it is somebody else's."""
    into = Unions("shop", (Union("shop.orders", r"(shop)\.orders_\d+", ("of",)),))
    lake = Lake(tmp_path, unions=into)
    made(lake, "orders_1")
    assert not found(lake, "shop", RULES).wanted
    publish(lake, into.all[0])

    answer = found(lake, "shop", RULES)

    assert [(one.table, one.kind, one.path) for one in answer.wanted] == [
        ("shop.orders", "table", str(tmp_path / "shop" / "orders"))
    ]
    assert answer.folders == {"shop/orders"}
    assert not found(Lake(tmp_path), "shop", RULES).wanted


def test_a_registration_is_owed_for_what_changed(tmp_path: Path) -> None:
    """New tables, tables that are gone, statements and other names; not folders that are no tables."""
    lake, notes = Lake(tmp_path / "lake"), CatalogNotes(Lake(tmp_path / "lake"), "shop", 1001)
    path = made(lake, "a")
    assert owed(lake, RULES, notes.read())
    assert noted_rules(lake, "shop", 1001) is None

    name = CatalogName("c", "shop", "a")
    notes.rename({NamedPlace("shop/a"): [name], NamedPlace("shop/b"): [], NamedPlace("shop/b", view=True): [name]})
    notes.settle(RULES, ["shop/a"], notes.read().owed)
    (tmp_path / "lake" / "shop" / "files").mkdir()
    assert owed(lake, RULES, notes.read()) == ""
    assert notes.read().names == {NamedPlace("shop/a"): {name}, NamedPlace("shop/b", view=True): {name}}
    assert noted_rules(lake, "shop", 1001) == RULES

    made(lake, "b")
    assert owed(lake, RULES, notes.read()) == "the lake has shop/b that the catalog may lack"
    notes.settle(RULES, lake.folders(), notes.read().owed)
    shutil.rmtree(path)
    assert owed(lake, RULES, notes.read()) == "the lake no longer has shop/a"
    notes.settle(RULES, lake.folders(), notes.read().owed)
    notes.owe()
    assert owed(lake, RULES, notes.read()) == "DDL statements changed tables"
    assert "new" in owed(lake, CatalogRules("other"), notes.read())


def test_what_failed_is_tried_again_ever_more_seldom(tmp_path: Path) -> None:
    """After a minute, then after twice as long, a day at most; at once when something changes."""
    lake = Lake(tmp_path / "lake")
    notes = CatalogNotes(lake, "shop", 1001)
    made(lake, "a")
    pauses, now = [], 0.0
    for _ in range(14):
        notes.postpone(RULES, lake.folders(), notes.read().owed, notes.read().pause, now)
        noted = notes.read()
        pauses.append(noted.again - now)
        now = noted.again
        assert owed(lake, RULES, noted, partial(float, now - 1)) == ""
        assert "could not be registered" in owed(lake, RULES, noted, partial(float, now))

    assert (pauses[:3], pauses[-1]) == ([60, 120, 240], 86400)
    made(lake, "b")
    assert "shop/b" in owed(lake, RULES, notes.read(), lambda: now)
    notes.settle(RULES, lake.folders(), notes.read().owed)
    assert owed(lake, RULES, notes.read(), lambda: now + 1e9) == ""
    assert notes.read().pause == 0


def test_a_view_belongs_to_a_live_table_and_its_log(tmp_path: Path) -> None:
    """Not to a dropped one. Where the table cannot be read, it is unknown what the view should be."""
    lake = Lake(tmp_path)
    for table in ("a", "b", "c"):
        made(lake, f"{table}__log", **{LOG: "true"})
    made(lake, "b", sluice__dropped="x:4")
    damaged = made(lake, "c")
    (damaged / "_delta_log" / f"{0:020}.json").write_text("nothing")

    answer = found(lake, "shop", RULES)

    assert not [one for one in answer.wanted if one.kind is Kind.VIEW]
    assert answer.unreadable == {str(damaged), f"{damaged}__log"}


@pytest.mark.parametrize("root", ["x/../lake", "lake/", "./lake", "lake//", "file://{here}/lake//"])
def test_a_path_is_as_spark_keeps_it(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the lake is written, a table that is registered is found again."""
    monkeypatch.chdir(tmp_path)

    assert location(f"{root.format(here=tmp_path)}/shop/orders") == f"{tmp_path}/lake/shop/orders"
    assert location("s3a://bucket/lake/../shop") == "s3a://bucket/lake/../shop"


def test_a_defs_yaml_names_a_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name alone, with templates, or not at all; what `sluice up` starts is the default."""

    def rules(**fields: object) -> CatalogRules | None:
        return Settings(destination="d", lake="/lake", **fields).catalog_rules  # type: ignore[arg-type]

    monkeypatch.delenv("SLUICE_CATALOG", raising=False)
    assert rules() is None
    assert rules(catalog="glue") == CatalogRules("glue")
    templates = CatalogSettings(name="unity", database="{destination}_{database}", table="{table}")
    assert rules(catalog=templates) == CatalogRules("unity", "{destination}_{database}", "{table}")
    monkeypatch.setenv("SLUICE_CATALOG", "spark_catalog")
    assert rules() == RULES == catalog_from(catalog_json(RULES))
    assert rules(catalog="") is None
    with pytest.raises(ValidationError, match="gives all tables one name"):
        CatalogSettings(table="{database}")


@pytest.mark.parametrize("name", [" ", "spark_catalog.shop", "a b", "`a`", "a\n"])
def test_what_is_no_name_of_a_catalog_is_refused(name: str) -> None:
    """In each form, with what is one."""
    what = r"it is spark_catalog, or NAME of spark\.sql\.catalog\.NAME"
    with pytest.raises(ValidationError, match=what):
        Settings(destination="d", lake="/lake", catalog=name)
    with pytest.raises(ValidationError, match=what):
        CatalogSettings(name=name)
    with pytest.raises(ValidationError, match=what):
        Register(catalog=name)
    with pytest.raises(ValidationError, match="names no catalog"):
        CatalogSettings(name="")
    assert Register(catalog="my-glue").catalog == "my-glue"

"""What is asked of a session's catalog, and how its answers are read: with a session that is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import ConfigError, LakeError
from spark_jobs.catalog.plan import Entry, mark_of
from spark_jobs.catalog.session_catalog import SessionCatalog, View, drop_view, make_view, replace_views
from spark_jobs.lake.catalog_names import CatalogName

LOG = "/lake/shop/t__log"
NAME = CatalogName("spark_catalog", "shop", "t__now")


@dataclass
class Session:
    """Answers SHOW TABLE EXTENDED, and keeps what else is `said`."""

    shows: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def sql(self, text: str) -> Any:
        rows = [{"tableName": name, "information": of, "isTemporary": False} for name, of in self.shows.items()]
        if not text.startswith("SHOW"):
            self.said.append(text)
        return SimpleNamespace(collect=lambda: rows)

    @property
    def conf(self) -> Any:
        return SimpleNamespace(get=lambda key, default: self.settings.get(key, default))

    @property
    def catalog(self) -> Any:
        return SimpleNamespace(databaseExists=lambda name: "shop" in name)

    @property
    def spark(self) -> SparkSession:
        return cast(SparkSession, self)


def of_view(properties: str, text: str = "SELECT 1") -> str:
    """What Spark shows of a view."""
    return f"Table: t__now\nType: VIEW\nView Text: {text}\nTable Properties: [{properties}]\nSchema: root\n"


def test_entries_are_read() -> None:
    """Tables by their location, views by their mark; a comment or a query that looks like either is neither."""
    mine = of_view(f"a=b, sluice.log={mark_of(LOG)}, transient_lastDdlTime=1")
    theirs = of_view("sluice.logs=0", f"SELECT '\nTable Properties: [sluice.log={mark_of(LOG)}x]'")
    table = "Table: a\nType: EXTERNAL\nComment: \nType: MANAGED\nLocation: /x\nLocation: file:/lake/shop/a\n"
    session = Session({"t__now": mine, "mine__now": theirs, "a": table})

    assert set(SessionCatalog(session.spark, "spark_catalog").entries(["shop"]).values()) == {
        Entry(NAME, view=True, mark=mark_of(LOG)),
        Entry(CatalogName("spark_catalog", "shop", "mine__now"), view=True),
        Entry(CatalogName("spark_catalog", "shop", "a"), "file:/lake/shop/a", external=True),
    }


def test_a_view_is_made_where_none_is() -> None:
    """So that of two who come at the same time one fails; and replaced where it is that of the log."""
    session = Session()
    make_view(session.spark, NAME, LOG, "SELECT 1")
    created = f"`spark_catalog`.`shop`.`t__now` TBLPROPERTIES ('sluice.log' = '{mark_of(LOG)}') AS SELECT 1"
    assert session.said == ["CREATE DATABASE IF NOT EXISTS `spark_catalog`.`shop`", f"CREATE VIEW {created}"]

    session = Session({"t__now": of_view(f"sluice.log={mark_of(LOG)}")})
    make_view(session.spark, NAME, LOG, "SELECT 1")
    assert session.said[1:] == [f"CREATE OR REPLACE VIEW {created}"]
    drop_view(session.spark, NAME, LOG)
    assert session.said[2:] == ["DROP VIEW IF EXISTS `spark_catalog`.`shop`.`t__now`"]


def views(*names: str, place: int) -> list[View]:
    """Views of the tables of these names at a place."""
    return [
        View(CatalogName("", "shop", f"{one}__as_of"), f"/lake/shop/{one}", f"SELECT {place}", f"as of {place}")
        for one in names
    ]


def test_views_that_belong_together_are_never_there_beside_former_ones() -> None:
    """All former ones are dropped before the first is made; so is that of a table that is gone, if it is Sluice's."""
    shows = {f"{one}__as_of": of_view(f"sluice.log={mark_of(f'/lake/shop/{one}')}") for one in "abc"}
    session = Session({**shows, "d__as_of": of_view("")})
    gone = {CatalogName("", "shop", f"{one}__as_of"): f"/lake/shop/{one}" for one in "cde"}
    replace_views(session.spark, views("a", "b", place=7), gone)
    assert session.said == [
        "CREATE DATABASE IF NOT EXISTS `shop`",
        *(f"DROP VIEW IF EXISTS `shop`.`{one}__as_of`" for one in "abc"),
        *(
            f"CREATE VIEW `shop`.`{one}__as_of` COMMENT 'as of 7' "
            f"TBLPROPERTIES ('sluice.log' = '{mark_of(f'/lake/shop/{one}')}') AS SELECT 7"
            for one in "ab"
        ),
    ]


def test_no_view_is_dropped_where_one_of_them_is_refused() -> None:
    """Its name is somebody else's."""
    own = of_view(f"sluice.log={mark_of('/lake/shop/a')}")
    session = Session({"a__as_of": own, "b__as_of": of_view("")})
    with pytest.raises(LakeError, match="a view that Sluice did not make"):
        replace_views(session.spark, views("a", "b", place=7), {})
    assert session.said == ["CREATE DATABASE IF NOT EXISTS `shop`"]


def test_views_of_which_one_cannot_be_made_are_all_gone() -> None:
    """Somebody makes the same ones as of another place."""

    class Raced(Session):
        def sql(self, text: str) -> Any:
            answer = super().sql(text)
            if text.startswith("CREATE VIEW `shop`.`b"):
                raise PySparkException("it is there")
            return answer

    session = Raced()
    with pytest.raises(PySparkException, match="it is there"):
        replace_views(session.spark, views("a", "b", place=7), {})
    assert session.said[-1] == "DROP VIEW IF EXISTS `shop`.`a__as_of`"


@pytest.mark.parametrize(
    "there",
    [of_view("a=b"), of_view(f"sluice.log={mark_of('/other/shop/t__log')}"), "Type: EXTERNAL\nLocation: file:/x\n"],
)
def test_what_is_not_of_the_log_is_left_alone(there: str) -> None:
    """A person's view, that of a twin, of another destination or lake, or a table."""
    session = Session({"t__now": there})
    with pytest.raises(LakeError, match="by that name") as error:
        make_view(session.spark, NAME, LOG, "SELECT 1")
    drop_view(session.spark, NAME, LOG)

    assert "templates" in error.value.hint
    assert session.said == ["CREATE DATABASE IF NOT EXISTS `spark_catalog`.`shop`"]
    make_view(session.spark, CatalogName("", "shop", "T__now"), LOG, "SELECT 1")
    assert session.said[-1].startswith("CREATE VIEW `shop`.`T__now` TBLPROPERTIES")  # Spark says if it lowers case


def test_a_catalog_that_spark_does_not_know_is_an_error_of_its_own() -> None:
    """With how to name it; that of each Spark needs no setting."""
    with pytest.raises(ConfigError, match="no such catalog") as error:
        SessionCatalog(Session().spark, "glue").entries(["shop"])
    assert "spark.sql.catalog.glue" in error.value.hint

    known = Session(settings={"spark.sql.catalog.glue": "a.Class"})
    assert SessionCatalog(known.spark, "glue").entries(["shop"]) == {}


def test_a_metastore_in_the_lake_moves_with_it() -> None:
    """As the Spark of `sluice up` has it."""
    there = Session(settings={"spark.sql.warehouse.dir": "file:/lake/_sluice/_sluice_metastore/warehouse"})

    assert SessionCatalog(there.spark, "spark_catalog").is_in("/x/../lake")
    assert not SessionCatalog(there.spark, "spark_catalog").is_in("/lak")
    assert not SessionCatalog(there.spark, "unity").is_in("/lake")
    assert not SessionCatalog(Session().spark, "spark_catalog").is_in("/lake")

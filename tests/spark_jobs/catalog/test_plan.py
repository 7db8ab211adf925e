"""spark_jobs.catalog.plan: what is registered, dropped and refused."""

from __future__ import annotations

import pytest

from spark_jobs.catalog.plan import CatalogPlan, Entry, Given, Key, Kind, Wanted, compared, mark_of, plain
from spark_jobs.lake.catalog_names import CatalogName, CatalogRules, check_template

RULES = CatalogRules()


def wanted(table: str, rules: CatalogRules = RULES) -> Wanted:
    database, name = table.split(".")
    return Wanted(table, Kind.TABLE, rules.name("d", database, name), f"/lake/{database}/{name}")


def view(table: str, rules: CatalogRules = RULES) -> Wanted:
    """The view of a table, over its log."""
    database, name = table.split(".")
    return Wanted(
        f"{table}__now", Kind.VIEW, rules.name("d", database, f"{name}__now"), f"/lake/{database}/{name}__log"
    )


def given(one: Wanted, former: str = "") -> Given:
    """As Sluice named it before, perhaps in a lake elsewhere."""
    return Given(one.name, one.path, one.is_view, former)


def made(one: Wanted, path: str = "") -> Entry:
    """What the catalog has of it; of another path in its place."""
    if one.is_view:
        return Entry(one.name, view=True, mark=mark_of(path or one.path))
    return Entry(one.name, f"file:{path or one.path}", external=True)


def entries(*found: Entry) -> dict[Key, Entry]:
    return {entry.name.key: entry for entry in found}


def at(name: str, location: str, *, external: bool = True) -> Entry:
    return Entry(CatalogName("spark_catalog", *name.split(".")), location, external)


def test_what_the_catalog_lacks_is_registered() -> None:
    """Also what somebody has dropped."""
    orders, users = wanted("shop.orders"), wanted("shop.users")
    registered = [given(orders), given(users)]

    assert compared([orders, users], {}, []) == CatalogPlan(missing=(orders, users))
    assert compared([orders, users], entries(at("shop.users", users.path)), registered) == CatalogPlan(
        missing=(orders,), right=(users,)
    )


def test_a_table_at_the_path_is_taken_over() -> None:
    """Whoever registered it, and however its location is written."""
    orders = wanted("shop.orders")

    assert compared([orders], entries(at("shop.orders", "file:///lake/shop/orders/")), []).right == (orders,)


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (at("shop.orders", "/elsewhere/orders"), "a table at /elsewhere/orders"),
        (Entry(CatalogName("spark_catalog", "shop", "orders"), view=True), "a view that Sluice did not make"),
    ],
)
def test_a_name_that_is_taken_is_refused(there: Entry, says: str) -> None:
    """What has it is left alone, and the other tables are registered."""
    orders, users = wanted("shop.orders"), wanted("shop.users")
    plan = compared([orders, users], entries(there), [])

    assert plan.refused == {"shop.orders": f"the catalog has {says} by the name spark_catalog.shop.orders"}
    assert (plan.stale, plan.missing) == ((), (users,))


def test_two_tables_of_one_name_are_refused_by_both_names() -> None:
    """In a catalog that lowers case, or by a template. One that is registered stays."""
    one, other = wanted("shop.Orders"), wanted("shop.orders")
    plan = compared([one, other], {}, [])
    both = "shop.Orders and shop.orders would both be"

    assert plan.refused == {
        "shop.Orders": f"{both} spark_catalog.shop.Orders",
        "shop.orders": f"{both} spark_catalog.shop.orders",
    }
    assert not plan.missing
    plan = compared([one, other], entries(at("shop.orders", other.path)), [])
    assert (plan.right, set(plan.refused)) == ((other,), {"shop.Orders"})


def test_what_has_no_table_any_more_is_dropped() -> None:
    """Of what Sluice has registered alone, and only as long as it is still that."""
    gone, path = CatalogName("spark_catalog", "shop", "gone"), "/lake/shop/gone"

    def stale(entry: Entry) -> list[Entry]:
        return [one.entry for one in compared([], entries(entry), [Given(gone, path)]).stale]

    entry = at("shop.gone", path)
    assert stale(entry) == [entry]
    assert not stale(at("shop.gone", "/elsewhere"))
    assert not stale(at("shop.gone", path, external=False))
    assert not compared([], entries(entry), []).stale
    assert not compared([], entries(entry), [Given(gone, path)], {path}).stale


def test_other_templates_move_names() -> None:
    """Also to a name that another table of Sluice's had."""
    new = wanted("a.b", CatalogRules(database="lake", table="{database}_{table}"))
    old = wanted("lake.a_b")
    before = [Given(CatalogName("spark_catalog", "a", "b"), new.path), given(old)]
    moved = Wanted("lake.a_b", Kind.TABLE, CatalogName("spark_catalog", "lake", "lake_a_b"), old.path)
    plan = compared([new, moved], entries(at("a.b", new.path), at("lake.a_b", old.path)), before)

    assert {str(one.entry.name) for one in plan.stale} == {"spark_catalog.a.b", "spark_catalog.lake.a_b"}
    assert plan.missing == (new, moved)


def test_views_of_equal_names_are_refused_by_both_names() -> None:
    """Where other characters become underscores, or a table has the name of another one's view. What is there stays."""
    one, other, table = view("shop.a-b"), view("shop.a_b"), wanted("shop.a_b__now")

    assert set(compared([one, other], {}, []).refused) == {"shop.a-b__now", "shop.a_b__now"}
    plan = compared([one, other], entries(made(other)), [])
    assert (plan.right, set(plan.refused)) == ((other,), {"shop.a-b__now"})
    assert not compared([other, table], {}, []).missing
    both = [view("магазин.заказы"), view("магазин.товары")]
    assert set(compared(both, {}, []).refused) == {"магазин.заказы__now", "магазин.товары__now"}


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (Entry(view("shop.t").name, view=True), "a view that Sluice did not make"),
        (made(view("shop.t"), "/lakes/other/shop/t__log"), "a view of another table"),
        (made(wanted("shop.t__now")), "a table at file:/lake/shop/t__now"),
    ],
)
def test_a_view_is_known_by_its_log(there: Entry, says: str) -> None:
    """One of another lake or destination, or somebody's own, is neither taken over nor dropped."""
    one = view("shop.t")
    plan = compared([one], entries(there), [given(one)])

    assert plan.refused == {"shop.t__now": f"the catalog has {says} by the name spark_catalog.shop.t__now"}
    assert not plan.stale
    assert not compared([], entries(there), [given(one)]).stale
    assert compared([one], entries(made(one)), []).right == (one,)


def test_a_view_without_its_table_is_dropped() -> None:
    """With its table, or by other templates; a log that cannot be read keeps it."""
    one, moved = view("shop.t"), view("shop.t", CatalogRules(database="lake_{database}"))

    assert [str(stale.entry.name) for stale in compared([moved], entries(made(one)), [given(one)]).stale] == [
        "spark_catalog.shop.t__now"
    ]
    assert compared([], entries(made(one)), [given(one)]).stale
    assert not compared([], entries(made(one)), [given(one)], {one.path}).stale


def test_a_lake_that_has_moved_gets_its_names_anew() -> None:
    """Tables and views whose entries are still those of the old place; nobody else's, wherever they are."""
    table, now = wanted("shop.t"), view("shop.t")
    before = [given(table, "/old/shop/t"), given(now, "/old/shop/t__log")]
    there = entries(made(table, "/old/shop/t"), made(now, "/old/shop/t__log"))
    plan = compared([table, now], there, before)

    assert {stale.entry.name for stale in plan.stale} == {table.name, now.name}
    assert plan.missing == (table, now)
    plan = compared([table, now], there, [given(table), given(now)])
    assert set(plan.refused) == {"shop.t", "shop.t__now"}
    assert compared([table, now], entries(made(table), made(now)), before).right == (table, now)
    other = entries(made(table, "/elsewhere/shop/t"))
    assert set(compared([table], other, before).refused) == {"shop.t"}


def test_spellings_of_a_location() -> None:
    """As Spark, Hive and a person write them."""
    assert plain("file:/a/b") == plain("file:///a/b/") == plain("/a/b")
    assert plain("s3a://bucket/a") == plain("s3://bucket/a")
    assert plain("/a:b/c") == "/a:b/c"


def test_names_have_what_every_catalog_allows() -> None:
    """Other characters become underscores."""
    name = CatalogRules("unity", "{destination}_{database}", "{table}").name("shop-1", "my.db", "grün`")

    assert str(name) == "unity.shop_1_my_db.gr_n_"
    assert name.sql == "`unity`.`shop_1_my_db`.`gr_n_`"


@pytest.mark.parametrize("template", ["", "{nothing}", "{table", "{}", "{table!r}", "{database}"])
def test_what_is_no_template_is_refused(template: str) -> None:
    """Also one that gives all tables one name."""
    with pytest.raises(ValueError):
        check_template(template, needs="table")

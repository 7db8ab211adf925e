"""What is seen of online schema changes, and of renames across the filter."""

import pytest

from cdc_core.schema.ddl_parser import effects
from cdc_core.stream.online_ddl import effects_seen, is_helper, without_helpers

DROPPED = ["drop shop.__o_20260102030405_del", "drop shop._o_old"]
SWAPPED = ["rename shop.b shop.a", "rename shop.s shop.b"]


def captured(database: str, table: str) -> bool:
    """All of `shop` but `x`."""
    return database == "shop" and table != "x"


def there(database: str, table: str) -> bool:
    """All of them but `gone`."""
    return captured(database, table) and table != "gone"


def seen(text: str) -> list[str]:
    found, _ = effects(text, "shop")
    return [f"{e.kind} {e.name}{' ' + '.'.join(e.to) if e.to else ''}" for e in effects_seen(found, captured, there)]


@pytest.mark.parametrize(
    "table",
    [
        "_t_gho",
        "_t_ghc",
        "_t_del",
        "_t_20260102030405_del",
        "_t_new",
        "_t_old",
        "____t_new",
        "__t_gho",
        "#sql-ib5",
        "#sql2-1",
    ],
)
def test_helpers_are_known_by_name(table: str) -> None:
    """gh-ost's, also with time in the name; those of pt-online-schema-change, which adds underscores; the server's."""
    assert is_helper("shop", table, there)


@pytest.mark.parametrize(
    "table", ["t", "t_new", "_t", "_new", "__new", "_x_gho", "_gone_old", "_t_gho2", "t_old", "_t_newer"]
)
def test_other_tables_are_no_helpers(table: str) -> None:
    """Also one of a table that is not captured, or not there: the filter alone decides about it."""
    assert not is_helper("shop", table, there)


@pytest.mark.parametrize(
    "statements",
    [
        [
            "create /* gh-ost */ table `shop`.`_t_ghc` (id bigint)",
            "create /* gh-ost */ table `shop`.`_t_gho` like `shop`.`t`",
            "alter /* gh-ost */ table `shop`.`_t_gho` add c int",
            "create /* gh-ost */ table `shop`.`_t_del` (id int primary key) comment='ghost-cut-over-sentry'",
            "drop /* gh-ost */ table if exists `shop`.`_t_del`",
            "rename /* gh-ost */ table `shop`.`t` to `shop`.`_t_del`, `shop`.`_t_gho` to `shop`.`t`",
            "drop /* gh-ost */ table if exists `shop`.`_t_ghc`",
            "drop /* gh-ost */ table if exists `shop`.`_t_del`",
        ],
        [
            "CREATE TABLE `shop`.`_t_new` (id int not null, primary key (id))",
            "ALTER TABLE `shop`.`_t_new` ADD COLUMN c INT",
            "CREATE TRIGGER `pt_osc_shop_t_del` AFTER DELETE ON `shop`.`t` FOR EACH ROW DELETE FROM `shop`.`_t_new`",
            "RENAME TABLE `shop`.`t` TO `shop`.`_t_old`, `shop`.`_t_new` TO `shop`.`t`",
            "DROP TABLE IF EXISTS `shop`.`_t_old`",
            "DROP TRIGGER IF EXISTS `shop`.`pt_osc_shop_t_del`",
        ],
    ],
    ids=["gh-ost", "pt-online-schema-change"],
)
def test_an_online_change_is_one_rewrite(statements: list[str]) -> None:
    """Everything but the swap is unseen."""
    assert [line for text in statements for line in seen(text)] == ["rewrite shop.t"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RENAME TABLE a TO b", ["rename shop.a shop.b"]),
        (
            "RENAME TABLE a TO s, b TO a, s TO b",
            ["rename shop.a shop.s", "rename shop.b shop.a", "rename shop.s shop.b"],
        ),
        ("RENAME TABLE a TO other.a", ["drop shop.a"]),
        ("RENAME TABLE other.a TO a", ["rewrite shop.a"]),
        ("RENAME TABLE other.a TO other.b, x TO other.x", []),
        ("RENAME TABLE a TO b, x TO a", ["rename shop.a shop.b", "rewrite shop.a"]),
        ("RENAME TABLE a TO x, b TO a", ["drop shop.a", "rename shop.b shop.a"]),
        ("RENAME TABLE t TO _t_old", ["rename shop.t shop._t_old"]),
        ("ALTER TABLE x EXCHANGE PARTITION p WITH TABLE t", ["rewrite shop.t"]),
        ("ALTER TABLE t ADD INDEX (a)", []),
        ("DROP TABLE x, t, _t_gho", ["drop shop.t"]),
        ("DROP DATABASE other", []),
        ("DROP DATABASE shop", ["drop_database shop."]),
        ("RENAME TABLE gone TO _gone_old", ["rename shop.gone shop._gone_old"]),
        ("DROP TABLE _gone_old", ["drop shop._gone_old"]),
        ("ALTER TABLE _gone_gho RENAME gone", ["drop shop._gone_gho", "drop shop._gone_del", "rewrite shop.gone"]),
    ],
)
def test_effects_on_captured_tables_are_seen(text: str, expected: list[str]) -> None:
    """A rename out of the filter is a drop; into it, the table has rows that nobody saw."""
    assert seen(text) == expected


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ("_o_old", "CREATE TABLE o LIKE _o_old", ["create shop.o", "drop shop._o_old"]),
        ("_o_old __o_20260102030405_del x", "CREATE TABLE o (id INT)", ["create shop.o", *DROPPED]),
        ("_o_old o", "CREATE TABLE IF NOT EXISTS o (id INT)", ["create shop.o"]),
        ("_x_old", "CREATE TABLE x (id INT)", []),
        ("_o_old b", "RENAME TABLE b TO o", ["rename shop.b shop.o", "drop shop._o_old"]),
        ("o b", "RENAME TABLE o TO _o_old, b TO o", ["drop shop.o", "rename shop.b shop.o"]),
        ("o", "RENAME TABLE o TO _o_old", ["rename shop.o shop._o_old"]),
        (
            "o b",
            "RENAME TABLE o TO _o_old, b TO o, _o_old TO b",
            ["drop shop.o", "rename shop.b shop.o", "rewrite shop.b"],
        ),
        ("a b", "RENAME TABLE a TO s, b TO a, s TO b", ["rename shop.a shop.s", *SWAPPED]),
        ("o _o_gho", "RENAME TABLE o TO _o_del, _o_gho TO o", ["rewrite shop.o"]),
        ("o _o_old x", "DROP TABLE o", ["drop shop.o", "rewrite shop._o_old"]),
        ("o _o_old", "DROP TABLE o, _o_old", ["drop shop.o"]),
        ("o _o_old", "RENAME TABLE o TO b", ["rename shop.o shop.b", "rewrite shop._o_old"]),
        ("o _o_old", "RENAME TABLE o TO other.o", ["drop shop.o", "rewrite shop._o_old"]),
        ("o _o_old", "RENAME TABLE o TO b, _o_old TO c", ["rename shop.o shop.b", "rewrite shop.c"]),
        (
            "o _o_old",
            "RENAME TABLE o TO s, _o_old TO o, s TO _o_old",
            ["rename shop.o shop.s", "rewrite shop.o", "drop shop.s"],
        ),
        ("o _o_ghc", "RENAME TABLE o TO _o_del", ["rename shop.o shop._o_del", "rewrite shop._o_ghc"]),
    ],
)
def test_a_table_that_becomes_a_helper_is_dropped(before: str, text: str, expected: list[str]) -> None:
    """Nothing is seen of it from then on, not even its DROP. One that is a helper no more has rows that nobody saw."""
    tables = before.split()
    found, _ = effects(text, "shop")

    def known(database: str, table: str) -> bool:
        return captured(database, table) and table in tables

    seen = without_helpers(effects_seen(found, captured, known), found, captured, lambda _: tables)
    assert [f"{e.kind} {e.name}{' ' + '.'.join(e.to) if e.to else ''}" for e in seen] == expected

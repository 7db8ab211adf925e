"""Tables behind rules, by the real parts: MySQL, the service, Spark, Delta. What the lake has is what the rules make of
the source's rows, by stream, copy, DDL and comparison.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from cdc_core import config
from cdc_core.rules.claims import HIDING
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply.cascade import Cascades
from spark_jobs.load import cutover
from spark_jobs.load.loader import Loader
from spark_jobs.load.result import Copied
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.verify.comparer import TableComparer
from spark_jobs.write.order import Engine
from tests.support.hidden_values import files_with
from tests.support.landed import Killed, dies
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration
PEPPER = "a salt that nobody guesses"
HASH = Mask(MaskKind.SHA256, salt=Salt("SEEN_SALT"))
RULES = Rules(
    {
        "*.people": TableRule(
            exclude=("password",),
            rename=(("email", "mail"),),
            masks=(
                ("email", HASH),
                ("phone", Mask(MaskKind.KEEP_LAST, 2)),
                ("name", Mask(MaskKind.TRUNCATE, 1)),
                ("n", Mask(MaskKind.CONSTANT, constant="7")),
                ("note", Mask(MaskKind.NULL)),
                ("at", HASH),
            ),
        ),
        "*.codes": TableRule(rename=(("code", "id"),), masks=(("code", HASH),)),
        "*.bag": TableRule(exclude=("secret",), rename=(("b", "c"),)),
    }
)
TABLES = ("people", "codes", "bag")
ENGINES = (Engine.AUTO, pytest.param(Engine.SQL, marks=pytest.mark.full))
CREATE = (
    "CREATE TABLE people (id INT PRIMARY KEY, password VARCHAR(40), email VARCHAR(80), phone VARCHAR(20), "
    "name VARCHAR(20), n INT, note JSON, at DATETIME(3), plain INT)",
    "CREATE TABLE codes (code VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, v INT)",
    "CREATE TABLE bag (a INT, b VARCHAR(20), secret VARCHAR(40))",
)


@pytest.fixture
def shop(mysql8: MySqlServer, spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("SEEN_SALT", PEPPER)
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        shop.connector.set_rules(RULES)
        yield shop


def people(*ids: int) -> str:
    rows = ", ".join(
        f"({n}, 'hunter2-{n}', 'é{n}@example.com', 'phone {n:04d}', '日本{n}', {n}, '{{\"a\": {n}}}', "
        f"'2024-01-0{n % 9 + 1} 10:00:00.25', {n})"
        for n in ids
    )
    return f"INSERT INTO people VALUES {rows}"


def hashed(text: str) -> str:
    return hashlib.sha256((PEPPER + text).encode()).hexdigest()


def person(n: int, plain: int | None = None) -> tuple[Any, ...]:
    at = f"2024-01-0{n % 9 + 1} 10:00:00.250"
    return (n, hashed(f"é{n}@example.com"), f"{n:04d}"[-2:], "日", 7, None, hashed(at), n if plain is None else plain)


def rows(shop: Shop, table: str) -> Counter[tuple[Any, ...]]:
    """The rows of the lake."""
    there = DeltaTable(shop.lake.lake.path(shop.database, table))
    found = QueryBuilder().register("t", there).execute("SELECT * FROM t")
    return Counter(tuple(row.values()) for batch in found for row in pa.record_batch(batch).to_pylist())


def source_of(shop: Shop) -> Source:
    mysql = shop.mysql
    rules = shop.connector.rules().filled({"SEEN_SALT": PEPPER}.get)
    return Source(mysql.host, mysql.port, mysql.user, mysql.password, rules=rules)


def same(shop: Shop, *tables: str) -> None:
    """Source and lake agree, as `sluice verify` sees it."""
    comparer = TableComparer(shop.connector, source_of(shop), shop.lake.lake)
    for table in tables:
        found = comparer.table(shop.database, table)
        assert not found.error, found
        assert not found.differences, found


def instance_of(shop: Shop, tmp_path: Path) -> Any:
    return config.load_instance(tmp_path / "conf", "shop")[0]


@pytest.mark.in_turn
@pytest.mark.parametrize("engine", ENGINES)
def test_the_lake_has_what_the_rules_make_of_the_source(shop: Shop, tmp_path: Path, engine: Engine) -> None:
    """By the stream, by a copy, and by the stream again; no value that is hidden is in any file or answer."""
    shop = replace(shop, lake=replace(shop.lake, engine=engine))
    shop.execute(
        *CREATE,
        people(*range(1, 40)),
        "INSERT INTO codes VALUES ('a', 1), ('é', 2), ('c', 3)",
        "INSERT INTO bag VALUES (1, 'x', 'hunter2-a'), (1, 'x', 'hunter2-b'), (2, 'y', 'hunter2-c')",
        "UPDATE people SET password = 'hunter2-new' WHERE id < 5",
        "UPDATE people SET plain = 0 WHERE id = 6",
        "DELETE FROM people WHERE id = 7",
    )
    assert shop.drain() == []
    wanted = Counter([person(n) for n in range(1, 40) if n not in (6, 7)] + [person(6, 0)])
    assert rows(shop, "people") == wanted
    assert rows(shop, "codes") == Counter([(hashed("a"), 1), (hashed("é"), 2), (hashed("c"), 3)])
    assert rows(shop, "bag") == Counter([(1, "x"), (1, "x"), (2, "y")])

    shop.execute(
        "UPDATE codes SET code = 'b' WHERE code = 'a'",
        "DELETE FROM codes WHERE code = 'c'",
        "UPDATE bag SET secret = 'hunter2-d' WHERE secret = 'hunter2-a'",
        "DELETE FROM bag WHERE secret = 'hunter2-b'",
        "UPDATE bag SET b = 'z' WHERE a = 2",
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE people SET password = 'hunter2-min', plain = -1 WHERE id = 8",
        "UPDATE people SET email = 'new@example.com' WHERE id = 9",
        "INSERT INTO people (id, email) VALUES (50, 'x@example.com')",
        "SET SESSION binlog_row_image = FULL",
    )
    assert shop.drain() == []
    shop.execute("UPDATE bag SET secret = 'hunter2-e'", "UPDATE codes SET v = v", "UPDATE people SET password = NULL")
    assert shop.drain() == []  # nothing changes that the lake has
    assert rows(shop, "codes") == Counter([(hashed("b"), 1), (hashed("é"), 2)])
    assert rows(shop, "bag") == Counter([(1, "x"), (2, "z")])
    same(shop, *TABLES)

    loader = Loader(shop.connector, instance_of(shop, tmp_path), shop.lake.lake, shop.lake.sessions)
    streamed = {table: rows(shop, table) for table in TABLES}
    for table in TABLES:
        assert isinstance(loader.table(shop.database, table), Copied)
    assert {table: rows(shop, table) for table in TABLES} == streamed
    shop.execute(people(60, 61), "DELETE FROM people WHERE id = 1", "INSERT INTO codes VALUES ('n', 9)")
    assert shop.drain() == []
    same(shop, *TABLES)
    no_hidden_value(shop, tmp_path)


def no_hidden_value(shop: Shop, tmp_path: Path) -> None:
    """Neither a file of the lake nor an answer of the service has one, nor has any the salt."""
    answers = [str(shop.connector.client_status()), str(shop.connector.status()), shop.connector.rules().to_json()]
    hidden = ("hunter2", "example.com", "phone 0", PEPPER)
    assert files_with(tmp_path / "lake", hidden) == []
    assert [(one, text) for text in answers for one in hidden if one in text] == []


def test_staged_rows_are_as_the_lake_sees_them(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is killed before its rows are switched in leaves no hidden value in its files."""
    shop.execute(*CREATE, people(*range(1, 40)), "INSERT INTO codes VALUES ('example.com', 1)")
    assert shop.drain() == []
    dies(monkeypatch, cutover, "switch", behind=False)
    loader = Loader(shop.connector, instance_of(shop, tmp_path), shop.lake.lake, shop.lake.sessions)
    for table in ("people", "codes"):
        with pytest.raises(Killed):
            loader.table(shop.database, table)

    staged = Path(shop.lake.lake.staging_path("shop", "any")).parent
    for email in ("é7@example.com", "example.com"):
        assert files_with(staged, [hashed(email)])
    no_hidden_value(shop, tmp_path)


def test_a_wrong_row_behind_a_mask_is_found(shop: Shop) -> None:
    """By its key, or counted where the key is masked."""
    shop.execute(*CREATE, people(*range(1, 30)), "INSERT INTO codes VALUES ('a', 1), ('b', 2)")
    assert shop.drain() == []
    people_at, codes_at = (shop.lake.lake.path(shop.database, table) for table in ("people", "codes"))
    DeltaTable(people_at).update({"mail": "'x'"}, predicate="id = 3")
    DeltaTable(people_at).delete("id = 4")
    DeltaTable(codes_at).update({"v": "5"}, predicate="v = 1")
    comparer = TableComparer(shop.connector, source_of(shop), shop.lake.lake)

    found = comparer.table(shop.database, "people").comparison
    other = comparer.table(shop.database, "codes").comparison

    assert found is not None
    assert other is not None
    assert (found.missing, found.extra, found.different) == (1, 0, 1)
    assert (other.missing, other.extra, other.different) == (0, 0, 1)


def test_statements_about_hidden_columns_change_nothing(shop: Shop) -> None:
    """Others are followed in the lake's names, and one that would show a hidden column stops its table."""
    shop.execute(*CREATE, people(1, 2), "INSERT INTO bag VALUES (1, 'x', 'hunter2')")
    assert shop.drain() == []
    before = DeltaTable(shop.lake.lake.path(shop.database, "bag")).version()
    shop.execute(
        "ALTER TABLE bag MODIFY secret TEXT",
        "ALTER TABLE bag DROP COLUMN secret",
        "ALTER TABLE people ADD extra INT DEFAULT 5 AFTER email, MODIFY password TEXT",
        "ALTER TABLE people CHANGE plain simple INT",
        "UPDATE people SET simple = 8 WHERE id = 1",
    )
    assert shop.drain() == []
    assert DeltaTable(shop.lake.lake.path(shop.database, "bag")).version() == before
    names = [field.name for field in DeltaTable(shop.lake.lake.path(shop.database, "people")).schema().fields]
    assert names == ["id", "mail", "extra", "phone", "name", "n", "note", "at", "simple"]
    same(shop, "people", "bag")

    shop.execute("ALTER TABLE people RENAME COLUMN password TO pass_word", "UPDATE people SET simple = 9")
    assert shop.drain() == [f"{shop.database}.people"]
    (stop,) = shop.connector.client_status().stopped
    assert "renamed the column 'password', which a rule hides, to 'pass_word'" in stop.reason


@pytest.mark.in_turn
def test_other_rules_make_the_table_anew(shop: Shop, tmp_path: Path) -> None:
    """A run that may read the source copies the table; else it stops with the remedy."""
    shop.execute(*CREATE, people(1, 2), "INSERT INTO codes VALUES ('a', 1)")
    assert shop.drain() == []
    fewer = Rules({"*.people": TableRule(include=("id", "plain"))})
    shop.connector.set_rules(fewer)
    shop.execute("UPDATE people SET plain = 5 WHERE id = 1", "UPDATE codes SET v = 2")

    assert sorted(shop.drain()) == [f"{shop.database}.codes", f"{shop.database}.people"]
    reasons = {stop.table: stop.reason for stop in shop.connector.client_status().stopped}
    assert "its rules changed" in reasons[f"{shop.database}.people"]
    assert "its rules changed" in reasons[f"{shop.database}.codes"]

    loader = Loader(shop.connector, instance_of(shop, tmp_path), shop.lake.lake, shop.lake.sessions)
    assert isinstance(loader.copy(shop.database, "people"), Copied)
    assert rows(shop, "people") == Counter([(1, 5), (2, 2)])
    shop.connector.set_rules(RULES)
    reading = replace(shop, lake=replace(shop.lake, source=source_of(shop)))
    shop.execute("UPDATE people SET plain = 6 WHERE id = 1")
    assert reading.drain() == []
    assert rows(shop, "people") == Counter([person(1, 6), person(2)])
    same(shop, "people")


@pytest.mark.in_turn
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_enter_and_leave_the_lake(shop: Shop, tmp_path: Path, engine: Engine) -> None:
    """By the stream with a key and without one, in claims of which no row is the lake's, by a copy, and compared."""
    shop = replace(shop, lake=replace(shop.lake, engine=engine))
    where = TableRule(rename=(("city", "town"),), where="city = 'Ulm' AND COALESCE(gone, 0) = 0")
    shop.connector.set_rules(Rules({"*.homes": where, "*.visits": where}))
    shop.execute(
        "CREATE TABLE homes (id INT PRIMARY KEY, city VARCHAR(20), gone TINYINT)",
        "CREATE TABLE visits (id INT, city VARCHAR(20), gone TINYINT)",
        *(f"INSERT INTO {t} VALUES (1, 'Ulm', 0), (2, 'Bonn', 0), (3, 'Ulm', 1), (4, 'Ulm', NULL), (5, 'ulm', 0)"
          for t in ("homes", "visits")),
    )  # fmt: skip
    assert shop.drain() == []
    assert rows(shop, "homes") == rows(shop, "visits") == Counter([(1, "Ulm", 0), (4, "Ulm", None)])

    shop.execute(*(f"INSERT INTO {t} VALUES (9, 'Bonn', 0)" for t in ("homes", "visits")))
    assert shop.drain() == []  # no row of the lake changes
    shop.execute(
        *(
            statement.format(t)
            for t in ("homes", "visits")
            for statement in (
                "UPDATE {} SET city = 'Ulm' WHERE id = 2",
                "UPDATE {} SET gone = 1 WHERE id = 1",
                "UPDATE {} SET id = 40 WHERE id = 4",
                "UPDATE {} SET gone = 0 WHERE id = 3",
                "DELETE FROM {} WHERE id IN (3, 9)",
            )
        )
    )
    assert shop.drain() == []
    assert rows(shop, "homes") == rows(shop, "visits") == Counter([(2, "Ulm", 0), (40, "Ulm", None)])
    same(shop, "homes", "visits")

    loader = Loader(shop.connector, instance_of(shop, tmp_path), shop.lake.lake, shop.lake.sessions)
    for table in ("homes", "visits"):
        assert isinstance(loader.table(shop.database, table), Copied)
        assert rows(shop, table) == Counter([(2, "Ulm", 0), (40, "Ulm", None)])
    DeltaTable(shop.lake.lake.path(shop.database, "homes")).delete("id = 2")
    comparer = TableComparer(shop.connector, source_of(shop), shop.lake.lake)
    found = comparer.table(shop.database, "homes").comparison
    assert found is not None
    assert (found.missing, found.extra, found.different) == (1, 0, 0)


def test_a_table_does_not_escape_its_rule_by_a_new_name(shop: Shop) -> None:
    """It stops under the new name, and the run that may read the source does not copy it."""
    shop.execute(*CREATE, people(1, 2))
    assert shop.drain() == []
    reading = replace(shop, lake=replace(shop.lake, source=source_of(shop)))

    shop.execute("RENAME TABLE people TO folk", "UPDATE folk SET plain = 7")

    assert reading.drain() == [f"{shop.database}.folk"]
    (stop,) = shop.connector.client_status().stopped
    assert "where a rule hides its column 'password'" in stop.reason
    assert not shop.lake.lake.has(shop.database, "folk")


def test_a_hidden_column_does_not_escape_by_an_online_change(shop: Shop, tmp_path: Path) -> None:
    """As gh-ost and pt-online-schema-change swap their helper in: the run that may read the source does not copy it."""
    shop.execute(*CREATE, people(1, 2))
    assert shop.drain() == []
    reading = replace(shop, lake=replace(shop.lake, source=source_of(shop)))

    shop.execute(
        "CREATE TABLE _people_gho LIKE people",
        "ALTER TABLE _people_gho RENAME COLUMN password TO pass_word",
        "INSERT INTO _people_gho SELECT * FROM people",
        "RENAME TABLE people TO _people_del, _people_gho TO people",
        "UPDATE people SET plain = 7",
    )

    assert reading.drain() == [f"{shop.database}.people"]
    (stop,) = shop.connector.client_status().stopped
    assert stop.reason.startswith(HIDING)
    assert "hides 'password', which may be 'pass_word' now" in stop.reason
    no_hidden_value(shop, tmp_path)


def test_a_generated_column_of_a_hidden_one_is_right_after_its_type_changed(shop: Shop) -> None:
    """The server computes its values anew, of which no row is in the binlog: the table is copied."""
    shop.connector.set_rules(Rules({"*.paid": TableRule(exclude=("pay",))}))
    shop.execute(
        "CREATE TABLE paid (id INT PRIMARY KEY, pay DECIMAL(9,2), tier INT AS (IF(pay > 100, 1, 2)) STORED)",
        "INSERT INTO paid (id, pay) VALUES (1, 100.4), (2, 100.6)",
    )
    assert shop.drain() == []
    assert rows(shop, "paid") == Counter([(1, 1), (2, 1)])
    reading = replace(shop, lake=replace(shop.lake, source=source_of(shop)))

    shop.execute("ALTER TABLE paid MODIFY pay INT")

    assert reading.drain() == []
    assert rows(shop, "paid") == Counter([(1, 2), (2, 1)])
    same(shop, "paid")


@pytest.mark.in_turn
@pytest.mark.parametrize("engine", ENGINES)
def test_computed_columns_are_those_of_the_source_rows(shop: Shop, tmp_path: Path, engine: Engine) -> None:
    """By the stream with a key and without one, by DDL, by a copy, and compared; a wrong value is found."""
    shop = replace(shop, lake=replace(shop.lake, engine=engine))
    computed = (
        ("total", "price * n"),
        ("large", "price * n > 100"),
        ("label", "CONCAT_WS('-', CAST(id AS CHAR), LOWER(name))"),
        ("month", "DATE_FORMAT(at, '%Y-%m')"),
        ("color", "doc->>'$.color'"),
    )
    rule = TableRule(rename=(("name", "title"),), computed=computed)
    shop.connector.set_rules(Rules({"*.goods": rule, "*.sold": rule}))
    columns = "name VARCHAR(20), price DECIMAL(8,2), n INT, at DATETIME(3), doc JSON"
    values = "(1, 'Pen', 2.50, 4, '2024-02-29 10:00', '{\"color\": \"red\"}'), (2, 'Ink', 99, 2, NULL, NULL)"
    shop.execute(
        f"CREATE TABLE goods (id INT PRIMARY KEY, {columns})",
        f"CREATE TABLE sold (id INT, {columns})",
        *(f"INSERT INTO {t} VALUES {values}" for t in ("goods", "sold")),
    )
    assert shop.drain() == []

    def made(table: str) -> Counter[tuple[Any, ...]]:
        return Counter(one[6:] for one in rows(shop, table).elements())

    pen, ink = (Decimal("10.00"), False, "1-pen", "2024-02", "red"), (Decimal("198.00"), True, "2-ink", None, None)
    assert made("goods") == made("sold") == Counter([pen, ink])
    same(shop, "goods", "sold")

    shop.execute(
        *(
            statement.format(t)
            for t in ("goods", "sold")
            for statement in (
                "UPDATE {} SET n = 50, name = 'PEN' WHERE id = 1",
                "DELETE FROM {} WHERE id = 2",
                "ALTER TABLE {} ADD extra INT DEFAULT 5 AFTER name",
                "INSERT INTO {} (id, name, price) VALUES (3, NULL, 1)",
            )
        )
    )
    assert shop.drain() == []
    pen, new = (Decimal("125.00"), True, "1-pen", "2024-02", "red"), (None, None, "3", None, None)
    fields = DeltaTable(shop.lake.lake.path(shop.database, "goods")).schema().fields
    names = [field.name for field in fields]
    assert [*names[-5:]] == ["total", "large", "label", "month", "color"]
    assert Counter(one[7:] for one in rows(shop, "goods").elements()) == Counter([pen, new])
    same(shop, "goods", "sold")

    loader = Loader(shop.connector, instance_of(shop, tmp_path), shop.lake.lake, shop.lake.sessions)
    streamed = {table: rows(shop, table) for table in ("goods", "sold")}
    for table in ("goods", "sold"):
        assert isinstance(loader.table(shop.database, table), Copied)
        assert rows(shop, table) == streamed[table]
    DeltaTable(shop.lake.lake.path(shop.database, "goods")).update({"label": "'x'"}, predicate="id = 3")
    comparer = TableComparer(shop.connector, source_of(shop), shop.lake.lake)
    found = comparer.table(shop.database, "goods").comparison
    assert found is not None
    assert (found.missing, found.extra, found.different) == (0, 0, 1)


def test_an_expression_that_fails_stops_its_table_alone(shop: Shop, tmp_path: Path) -> None:
    """The stop has the row's place and the remedy. When the row is right, a copy resumes the table."""
    rule = TableRule(computed=(("number", "CAST(code AS SIGNED)"),))
    shop.connector.set_rules(Rules({"*.parts": rule}))
    shop.execute(
        "CREATE TABLE parts (id INT PRIMARY KEY, code VARCHAR(20))",
        "CREATE TABLE others (id INT PRIMARY KEY)",
        "INSERT INTO parts VALUES (1, '7'), (2, NULL)",
    )
    assert shop.drain() == []
    assert rows(shop, "parts") == Counter([(1, "7", 7), (2, None, None)])

    shop.execute("INSERT INTO parts VALUES (3, 'x')", "INSERT INTO others VALUES (1)")
    assert shop.drain() == [f"{shop.database}.parts"]
    (stop,) = shop.connector.client_status().stopped
    assert "has no value (a text is not a whole number)" in stop.reason
    assert rows(shop, "others") == Counter([(1,)])

    shop.execute("UPDATE parts SET code = '9' WHERE id = 3")
    loader = Loader(shop.connector, instance_of(shop, tmp_path), shop.lake.lake, shop.lake.sessions)
    assert isinstance(loader.table(shop.database, "parts"), Copied)
    assert shop.drain() == []
    assert rows(shop, "parts") == Counter([(1, "7", 7), (2, None, None), (3, "9", 9)])
    same(shop, "parts")


def test_a_cascade_changes_what_is_computed_of_its_columns(shop: Shop) -> None:
    """The foreign key's column becomes NULL at the source without a word in the binlog."""
    shop.connector.set_rules(Rules({"*.kids": TableRule(computed=(("label", "COALESCE(CAST(parent AS CHAR), '-')"),))}))
    source, captured = source_of(shop), [(shop.database, "parents"), (shop.database, "kids")]
    cascades = Cascades(lambda: connect(source), lambda: captured, rules=source.rules)
    reading = replace(shop, lake=replace(shop.lake, source=source, cascades=cascades))
    shop.execute(
        "CREATE TABLE parents (id INT PRIMARY KEY)",
        "CREATE TABLE kids (id INT PRIMARY KEY, parent INT, note INT, "
        "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE SET NULL)",
        "INSERT INTO parents VALUES (1), (2)",
        "INSERT INTO kids VALUES (1, 1, 0), (2, 2, 0)",
    )
    with cascades:
        assert reading.drain() == []
        shop.execute("DELETE FROM parents WHERE id = 1")
        assert reading.drain() == []
    assert rows(shop, "kids") == Counter([(1, None, 0, "-"), (2, 2, 0, "2")])
    same(shop, "kids")

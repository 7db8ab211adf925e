"""The history of definitions: what holds at a position, what a statement makes of it, what is forgotten."""

from __future__ import annotations

import pytest

from cdc_core.position import EntryPosition
from cdc_core.schema.conventions import Conventions, ServerCharset
from cdc_core.schema.ddl import Ddl, EffectKind
from cdc_core.schema.ddl_parser import effects
from cdc_core.schema.following import filled, versions_after
from cdc_core.schema.history import SchemaHistory, Version
from cdc_core.schema.table import Column, TableSchema

LATIN = ServerCharset("latin1", "latin1_swedish_ci", 1)
SERVER = Conventions(
    False, False, True, {LATIN.collation: 8}, {"latin1": LATIN}, {LATIN.collation: "latin1"}, LATIN.collation
)
T = TableSchema("d", "t", (Column("a", 3, 0, column_type="int"), Column("b", 3, 0, column_type="int")), ("a",))
U = TableSchema("d", "u", (Column("x", 8, 0, column_type="bigint"),))
BASE = SchemaHistory().with_versions([(("d", "t"), Version(100, T)), (("d", "u"), Version(100, U))])


def ddl(text: str, at: int = 200) -> Ddl:
    found, understood = effects(text, "d")
    return Ddl(EntryPosition("j.0", at), "d", text, found, understood)


def after(text: str, history: SchemaHistory = BASE) -> SchemaHistory:
    return history.with_versions(versions_after(history, ddl(text), 5, SERVER).items())


def columns(history: SchemaHistory, table: str, at: int = 200) -> str | None:
    """The columns' names; None where they are not known."""
    version = history.at(("d", table), at)
    return " ".join(c.name for c in version.schema.columns) if version and version.schema else None


def test_a_version_holds_until_the_next_one() -> None:
    """In front of its own position the one before it holds; before the first, nothing."""
    history = after("ALTER TABLE t ADD c INT")

    assert [columns(history, "t", at) for at in (99, 100, 199, 200, 900)] == [None, "a b", "a b", "a b c", "a b c"]
    assert history.before(("d", "t"), 200) == Version(100, T)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RENAME TABLE t TO v", (None, "x", "a b")),
        ("RENAME TABLE t TO v, u TO t, v TO u", ("x", "a b", None)),
        ("ALTER TABLE t ADD c INT, RENAME TO v", (None, "x", "a b c")),
        ("DROP TABLE t, u", (None, None, None)),
        ("DROP DATABASE d", (None, None, None)),
        ("CREATE TABLE v LIKE t", ("a b", "x", "a b")),
        ("CREATE TABLE IF NOT EXISTS t (z INT)", ("a b", "x", None)),
        ("CREATE TABLE v (z INT, w VARCHAR(3) CHARSET latin1)", ("a b", "x", "z w")),
        ("CREATE TABLE v (w VARCHAR(3))", ("a b", "x", None)),
        ("CREATE TABLE v (w DOUBLE(9,2) DEFAULT 1.5)", ("a b", "x", "w")),
        ("TRUNCATE t", ("a b", "x", None)),
        ("ALTER TABLE t SOMETHING NEW", (None, "x", None)),
        ("ALTER WONDER t", (None, "x", None)),
        ("RENAME TABLE elsewhere.y TO v", ("a b", "x", None)),
    ],
)
def test_a_statement_continues_the_history(text: str, expected: tuple[str | None, ...]) -> None:
    """Of several tables too. What the text does not say is not known afterwards, of the named tables alone."""
    history = after(text)

    assert tuple(columns(history, table) for table in "tuv") == expected
    assert columns(history, "t", 199) == "a b"


def test_a_database_gives_its_collation_to_tables() -> None:
    """CREATE DATABASE without a character set takes the server's."""
    history = after("CREATE DATABASE d2")
    history = history.with_versions(
        versions_after(history, ddl("CREATE TABLE d2.n (s VARCHAR(3))", 300), 5, SERVER).items()
    )

    version = history.at(("d2", "n"), 300)
    assert version is not None
    assert version.schema is not None
    assert (version.schema.columns[0].charset, version.schema.collation) == (8, "latin1_swedish_ci")


def test_a_snapshot_may_hold_the_statement_already() -> None:
    """A table read from the catalogue at 250 says nothing about a statement at 200."""
    history = SchemaHistory().with_versions([(("d", "t"), Version(100, T, sure=250))])

    assert columns(after("ALTER TABLE t ADD c INT", history), "t") is None
    assert history.exact(("d", "t"), 200) is None
    assert history.exact(("d", "t"), 260) == T


def test_effects_show_what_was_before_and_after() -> None:
    """Where it is known exactly: the clauses of one statement one after the other, a swap by its last name."""
    history = after("ALTER TABLE t ADD c INT, RENAME TO v")
    alter, rename = filled(history, ddl("ALTER TABLE t ADD c INT, RENAME TO v"), SERVER).effects

    assert alter.before == T
    assert alter.schema is not None
    assert [c.name for c in alter.schema.columns] == ["a", "b", "c"]
    assert rename.before == alter.schema
    assert rename.schema is not None
    assert rename.schema.name == "d.v"
    (drop,) = filled(after("DROP TABLE u"), ddl("DROP TABLE u"), SERVER).effects
    assert (drop.kind, drop.before, drop.schema) == (EffectKind.DROP, U, None)


def test_a_create_that_did_nothing_has_no_effect() -> None:
    """IF NOT EXISTS is logged also where the table was there: its rows must stay."""
    text = "CREATE TABLE IF NOT EXISTS t (z INT)"

    assert filled(after(text), ddl(text), SERVER).effects == ()


def test_what_nobody_reads_again_is_forgotten() -> None:
    """Neither a version that a cursor may need, nor one that is recent; a dropped table as a whole."""
    history = after("ALTER TABLE t ADD c INT")
    history = history.with_versions(versions_after(history, ddl("DROP TABLE u", 300), 5, SERVER).items())

    assert history.trimmed(oldest=150, since=99) == history
    assert history.trimmed(oldest=900, since=0) == history
    left = history.trimmed(oldest=900, since=99)
    assert (columns(left, "t", 900), len(left), ("d", "u") in left.tables) == ("a b c", 1, False)


def test_a_version_keeps_its_value_in_json() -> None:
    """Labels, comments and defaults too."""
    column = Column("e", 247, 1, labels=("x", "y"), comment="c", default="x", column_type="enum('x','y')")
    version = Version(7, TableSchema("d", "t", (column,), ("e",), "all", "latin1_bin"), 9, False, 11)

    assert Version.from_list(version.to_list(("d", "t"))) == (("d", "t"), version)

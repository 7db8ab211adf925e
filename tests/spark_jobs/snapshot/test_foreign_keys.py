"""Foreign keys as MariaDB shows them, and which of them change rows."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.snapshot.foreign_keys import ForeignKey, Rule, affected, ancestors, keys_in, read_foreign_keys

_SHOWN = """CREATE TABLE `c` (
  `id` int(11) NOT NULL COMMENT 'CONSTRAINT `x` FOREIGN KEY (`a`) REFERENCES `b` (`c`) ON DELETE CASCADE',
  PRIMARY KEY (`id`),
  CONSTRAINT `one` FOREIGN KEY (`a``b`, `v w`) REFERENCES `p` (`x`, `y.z`) ON DELETE CASCADE ON UPDATE SET NULL,
  CONSTRAINT `two` FOREIGN KEY (`a`) REFERENCES `other db`.`p` (`id`) ON DELETE NO ACTION ON UPDATE CASCADE,
  CONSTRAINT `three` FOREIGN KEY (`a`) REFERENCES `p` (`id`),
  CONSTRAINT `four` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE NO ACTION
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"""


def test_keys_that_change_rows_are_read() -> None:
    """Several columns, odd names, another database; a key that refuses the parent's change is none of them."""
    first = ForeignKey(("d", "c"), ("a`b", "v w"), ("d", "p"), ("x", "y.z"), Rule.CASCADE, Rule.SET_NULL)
    second = ForeignKey(("d", "c"), ("a",), ("other db", "p"), ("id",), Rule.RESTRICT, Rule.CASCADE)
    assert keys_in(_SHOWN, ("d", "c")) == [first, second]
    assert affected([first, second], ("d", "p")) == (first,)


@given(st.text("`, .(", min_size=1))
def test_any_name_is_read(name: str) -> None:
    """Whatever characters the names have."""
    shown = "`" + name.replace("`", "``") + "`"
    text = f"x (\n  CONSTRAINT {shown} FOREIGN KEY ({shown}) REFERENCES {shown} ({shown}) ON DELETE CASCADE\n)"
    key = ForeignKey(("d", "c"), (name,), ("d", name), (name,), Rule.CASCADE, Rule.RESTRICT)
    assert keys_in(text, ("d", "c")) == [key]


@pytest.mark.integration
def test_a_server_that_logs_cascades_may_not_have_done_so_before_it_was_started(mysql9: MySqlServer) -> None:
    """MySQL 9.6 and later do, unless an option says otherwise. Its foreign keys count in changes of before."""
    with mysql9.database() as database, mysql9.root(database) as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE p (id INT PRIMARY KEY)")
            cursor.execute("CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)")
        began = 1000 * (time.time() - 10**6)
        found = [
            {key.child for key in read_foreign_keys(connection, lambda: (), since)}
            for since in (None, int(began), int(1000 * time.time()))
        ]
        assert found == [set(), {(database, "c")}, set()]


@pytest.mark.integration
def test_a_default_that_is_no_text_hides_no_key(mariadb: MySqlServer) -> None:
    """MariaDB shows the bytes of a BINARY column's default as they are."""
    with mariadb.database() as database:
        mariadb.execute(
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "CREATE TABLE c (id INT PRIMARY KEY, b BINARY(2) DEFAULT 0x00FF, p INT, "
            "FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
            database=database,
        )
        with mariadb.connect() as connection:
            tables = [(database, "c"), (database, "gone"), (database, "p")]
            (key,) = read_foreign_keys(connection, lambda: tables)
    assert (key.child, key.columns, key.parent) == ((database, "c"), ("p",), (database, "p"))


def test_ancestors_are_found_through_others() -> None:
    """A table that references itself, and a circle of tables, end the search."""

    def key(child: str, parent: str) -> ForeignKey:
        return ForeignKey(("d", child), ("x",), ("d", parent), ("id",), Rule.CASCADE, Rule.RESTRICT)

    keys = [key("c", "b"), key("b", "a"), key("a", "c"), key("s", "s"), key("x", "y")]
    assert ancestors(keys, ("d", "c")) == {("d", name) for name in "abc"}
    assert ancestors(keys, ("d", "s")) == {("d", "s")}
    assert ancestors(keys, ("d", "y")) == frozenset()

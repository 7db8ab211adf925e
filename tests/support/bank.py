"""A small source: accounts, their entries, and a log without a primary key. Every transaction touches all three. More
tables are made on the way, each with its rows."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

DATABASE = "shop"  # the demo's configuration captures it
TABLES = ("account", "entry", "log")
SCHEMA = (
    f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
    f"USE {DATABASE}",
    "CREATE TABLE account (id INT UNSIGNED NOT NULL PRIMARY KEY, owner VARCHAR(60), balance DECIMAL(12, 2) NOT NULL, "
    "changed TIMESTAMP(6) NOT NULL)",
    "CREATE TABLE entry (account INT UNSIGNED NOT NULL, line INT NOT NULL, amount DECIMAL(12, 2) NOT NULL, note TEXT, "
    "PRIMARY KEY (account, line))",
    "CREATE TABLE log (line VARCHAR(40), number INT, at TIME(3)) COMMENT 'no primary key; equal rows are usual'",
)
_GONE = (2003, 2006, 2013, 1053, 1927)  # MySQL's ways to say that the server went away


class Bank:
    """`step` is one committed transaction. No number is given out twice, so a transaction in doubt does no harm. It
    works between `start` and `stop`, but not while `rests` is set."""

    def __init__(self, connect: Callable[[], Connection[Any]], rng: random.Random) -> None:
        self.transactions = 0
        self.made: list[str] = []
        self.altered = 0
        self.error: Exception | None = None
        self._connect = connect
        self._rng = rng
        self._accounts = 0
        self.rests = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            for statement in SCHEMA:
                cursor.execute(statement)

    def work(self, transactions: int = 30) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {DATABASE}")
            for _ in range(transactions):
                self.step(cursor)

    def make(self, tables: int = 3) -> None:
        """Makes tables, each with its rows, and works in between."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {DATABASE}")
            for _ in range(tables):
                name = f"made_{len(self.made)}"
                key = " PRIMARY KEY" if len(self.made) % 3 else ""
                cursor.execute(f"CREATE TABLE {name} (id INT{key}, what VARCHAR(20))")
                self.made.append(name)
                self.step(cursor)
                cursor.execute(f"INSERT INTO {name} VALUES (1, 'one'), (2, 'two')")
                connection.commit()

    def alter(self, tables: int = 3) -> None:
        """Alters the tables that were made first, each before rows of it, and works in between; now and then one is
        emptied."""
        if len(self.made) < tables:
            self.make(tables)
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {DATABASE}")
            for name in self.made[:tables]:
                self.altered += 1
                column, default = f"c{self.altered}", " DEFAULT 7" if self.altered % 2 else ""
                cursor.execute(f"ALTER TABLE {name} ADD COLUMN {column} INT{default}")
                if self.altered % 5 == 0:
                    cursor.execute(f"TRUNCATE {name}")
                self.step(cursor)
                cursor.execute(f"INSERT INTO {name} (id, what) VALUES (%s, 'later')", (self.altered + 2,))
                cursor.execute(f"UPDATE {name} SET {column} = 9 WHERE id < 3 OR id = %s", (self.altered + 2,))
                connection.commit()

    def step(self, cursor: Cursor) -> None:
        actions = (self._open_account, self._transfer, self._renumber, self._close_account)
        cursor.execute("BEGIN")
        self._rng.choices(actions, (4, 8, 3, 2))[0](cursor)
        self._log(cursor)
        cursor.execute("COMMIT")
        self.transactions += 1

    def start(self) -> None:
        """Works until `stop`, through restarts of the server."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._live, name="bank", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self.error is not None:
            raise self.error

    def _live(self) -> None:
        while not self._stop.is_set():
            try:
                if not self.rests.is_set():
                    self.work(2)
                time.sleep(0.1)
            except pymysql.err.Error as error:
                if not error.args or error.args[0] not in (0, *_GONE):
                    self.error = error
                    return
                time.sleep(0.2)

    def _open_account(self, cursor: Cursor) -> None:
        self._accounts += 1
        owner = self._rng.choice((None, "Åse", "Bo", "王"))
        cursor.execute("INSERT INTO account VALUES (%s, %s, 100, NOW(6))", (self._accounts, owner))
        lines = [(self._accounts, line, self._rng.randint(1, 99)) for line in range(4)]
        cursor.executemany("INSERT INTO entry VALUES (%s, %s, %s, 'opened')", lines)

    def _transfer(self, cursor: Cursor) -> None:
        """Moves money between two accounts and their entries in one transaction; the sum stays."""
        amount, first, second = self._rng.randint(1, 20), self._some(), self._some()
        for number, change in ((first, -amount), (second, amount)):
            sql = "UPDATE account SET balance = balance + %s, changed = NOW(6) WHERE id = %s"
            cursor.execute(sql, (change, number))
            cursor.execute("UPDATE entry SET amount = amount + %s WHERE account = %s", (change, number))

    def _renumber(self, cursor: Cursor) -> None:
        """Changes primary keys: each row takes the former key of the next one."""
        cursor.execute("UPDATE entry SET line = line - 1 WHERE account = %s ORDER BY line", (self._some(),))
        cursor.execute("UPDATE account SET owner = 'renumbered' WHERE id = %s", (self._some(),))

    def _close_account(self, cursor: Cursor) -> None:
        number = self._some()
        cursor.execute("DELETE FROM entry WHERE account = %s", (number,))
        cursor.execute("DELETE FROM account WHERE id = %s", (number,))

    def _log(self, cursor: Cursor) -> None:
        """Inserts equal rows, and updates or deletes some of several equal rows."""
        line = self._rng.choice(("in", "out", None))
        cursor.executemany("INSERT INTO log VALUES (%s, %s, '01:02:03.5')", [(line, self._rng.randint(0, 3))] * 3)
        cursor.execute(
            "UPDATE log SET number = 9 WHERE line = 'in' AND number = %s LIMIT 2", (self._rng.randint(0, 3),)
        )
        cursor.execute("DELETE FROM log WHERE line <=> %s AND number < 9 LIMIT 2", (line,))

    def _some(self) -> int:
        return self._rng.randint(1, max(1, self._accounts))

"""Random DDL and DML for one database and a second one. All chance comes from the `Random` that is given.

A statement is made from what the catalogue holds at that moment. Many are refused by the server, and write no event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.support.ddl_columns import NAMES, Column, definition, literal, quote

TABLES = ("a", "b", "c", "d", "e", "order", "Ünder")
_IMAGES = ("FULL", "FULL", "MINIMAL", "NOBLOB")
_MODES = ("", "", "STRICT_TRANSTABLES", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES,NO_AUTO_VALUE_ON_ZERO")


@dataclass(frozen=True)
class Table:
    """One base table; `database` 0 is the first database, 1 the second. `partitions`: their names."""

    database: int
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


class Script:
    """Makes statements for the databases of these names. `cascades`: foreign keys that change rows are among them."""

    def __init__(self, rng: Random, databases: Sequence[str], *, mariadb: bool, cascades: bool) -> None:
        self._rng, self._databases, self._mariadb, self._cascades = rng, databases, mariadb, cascades
        self._next: list[str] = []

    def statement(self, tables: Sequence[Table]) -> str:
        """The next one."""
        rng = self._rng
        if self._next:
            return self._next.pop()
        if len(tables) < 2 or rng.random() < (0.2 if len(tables) < 5 else 0.04):
            return self._create(tables)
        table = rng.choice(tables)
        if rng.random() < 0.68:
            return self._of_session() if rng.random() < 0.06 else self._change(table, tables)
        makers: list[tuple[int, Callable[[], str]]] = [
            (20, lambda: self._alter(table)),
            (2, lambda: f"TRUNCATE TABLE {self._path(table)}"),
            (1, lambda: f"DROP TABLE {self._path(table)}"),
            (6, lambda: self._rename(table, tables)),
            (4 if table.partitions else 0, lambda: self._partition(table, tables)),
            (1, lambda: f"ALTER DATABASE {quote(rng.choice(self._databases))} CHARACTER SET {self._charset()}"),
            (1, lambda: f"CREATE INDEX i{rng.randrange(9)} ON {self._path(table)} ({self._column(table)})"),
            (1, lambda: self._temporary(table)),
            (1 if len(tables) > 4 else 0, self._drop_database),
        ]
        return rng.choices([make for _, make in makers], [weight for weight, _ in makers])[0]()

    # -- rows

    def _change(self, table: Table, tables: Sequence[Table]) -> str:
        rng, path = self._rng, self._path(table)
        given = [column for column in table.columns if not column.filled]
        where = f" WHERE {self._condition(table)}" if rng.random() < 0.8 else ""
        draw = rng.random()
        if draw < 0.55 or not given:
            return self._insert(table, given, tables)
        if draw < 0.6 and "id" in table.key:
            return f"UPDATE IGNORE {path} SET `id` = `id` + {rng.randint(1, 9)}{where} LIMIT {rng.randint(1, 3)}"
        if draw < 0.85:
            chosen = rng.sample(given, rng.randint(1, min(2, len(given))))
            sets = ", ".join(f"{quote(column.name)} = {literal(rng, column)}" for column in chosen)
            return f"UPDATE IGNORE {path} SET {sets}{where} LIMIT {rng.randint(1, 3)}"
        return f"DELETE IGNORE FROM {path}{where} LIMIT {rng.randint(1, 3)}"

    def _insert(self, table: Table, given: Sequence[Column], tables: Sequence[Table]) -> str:
        rng, path = self._rng, self._path(table)
        draw = rng.random()
        if draw < 0.05:
            return f"INSERT IGNORE INTO {path} () VALUES ()"
        if draw < 0.1:
            other = self._path(rng.choice([one for one in tables if len(one.columns) == len(table.columns)]))
            return f"INSERT IGNORE INTO {path} SELECT * FROM {other} LIMIT 3"
        rows = ", ".join(
            "(" + ", ".join(literal(rng, column) for column in given) + ")" for _ in range(rng.randint(1, 4))
        )
        verb = rng.choice(("INSERT IGNORE", "INSERT IGNORE", "REPLACE"))
        text = f"{verb} INTO {path} ({', '.join(quote(column.name) for column in given)}) VALUES {rows}"
        if verb == "INSERT IGNORE" and given and rng.random() < 0.2:
            column = rng.choice(given)
            text += f" ON DUPLICATE KEY UPDATE {quote(column.name)} = {literal(rng, column)}"
        return text

    def _condition(self, table: Table) -> str:
        column = self._rng.choice(table.columns)
        value = literal(self._rng, column)
        return f"{quote(column.name)} {'IS' if value == 'NULL' else '>='} {value}"

    def _of_session(self) -> str:
        rng = self._rng
        return rng.choice(
            (
                "BEGIN",
                "BEGIN",
                "COMMIT",
                "ROLLBACK",
                "SAVEPOINT one",
                "ROLLBACK TO SAVEPOINT one",
                f"SET SESSION binlog_row_image = '{rng.choice(_IMAGES)}'",
                f"SET SESSION sql_mode = '{rng.choice(_MODES)}'",
                f"SET SESSION foreign_key_checks = {rng.choice((0, 1, 1))}",
            )
        )

    # -- definitions

    def _create(self, tables: Sequence[Table]) -> str:
        rng = self._rng
        path = f"{quote(rng.choice(self._databases))}.{quote(rng.choice(TABLES))}"
        verb = "CREATE OR REPLACE TABLE" if self._mariadb and rng.random() < 0.3 else "CREATE TABLE"
        verb += " IF NOT EXISTS" if verb == "CREATE TABLE" and rng.random() < 0.2 else ""
        if tables and rng.random() < 0.2:
            other = self._path(rng.choice(tables))
            return f"{verb} {path} LIKE {other}" if rng.random() < 0.6 else f"{verb} {path} AS SELECT * FROM {other}"
        names = rng.sample(NAMES[1:], rng.randint(1, 5))
        parts = ["`id` INT NOT NULL" + (" AUTO_INCREMENT" if rng.random() < 0.2 else "")]
        parts += [f"{quote(name)} {definition(rng)}" for name in names]
        if "AUTO_INCREMENT" in parts[0] or rng.random() < 0.75:
            parts.append(f"PRIMARY KEY ({rng.choice(('`id`', '`id`', f'`id`, {quote(names[0])}'))})")
        parents = [table for table in tables if table.key == ("id",) and not table.partitions]
        if self._cascades and parents and rng.random() < 0.4:
            parts += ["`parent` INT NULL", self._reference(rng.choice(parents))]
            return f"{verb} {path} ({', '.join(parts)})"
        options = rng.choice(("", "", f" CHARACTER SET {self._charset()}", " COMMENT 'it''s one'"))
        return f"{verb} {path} ({', '.join(parts)}){options}{rng.choice(('', '', self._partitioning()))}"

    def _reference(self, parent: Table) -> str:
        deleted, updated = (self._rng.choice(("CASCADE", "SET NULL", "RESTRICT")) for _ in range(2))
        return f"FOREIGN KEY (`parent`) REFERENCES {self._path(parent)} (`id`) ON DELETE {deleted} ON UPDATE {updated}"

    def _partitioning(self) -> str:
        if self._rng.random() < 0.3:
            return " PARTITION BY HASH (`id`) PARTITIONS 3"
        parts = "PARTITION p0 VALUES LESS THAN (8), PARTITION p1 VALUES LESS THAN (16), PARTITION p2 VALUES LESS THAN"
        return f" PARTITION BY RANGE (`id`) ({parts} MAXVALUE)"

    def _alter(self, table: Table) -> str:
        rng = self._rng
        clauses = [self._clause(table) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        verb = rng.choice(("ALTER TABLE", "ALTER TABLE", "ALTER TABLE", "/* why */ ALTER /* of */ TABLE"))
        if self._mariadb and rng.random() < 0.1:
            verb = "SET STATEMENT max_statement_time = 1000 FOR ALTER TABLE IF EXISTS"
        return f"{verb} {self._path(table)} {', '.join(clauses)}"

    def _clause(self, table: Table) -> str:
        rng, column = self._rng, self._rng.choice(table.columns)
        name, other, new = quote(column.name), self._column(table), quote(rng.choice(NAMES))
        place = rng.choice(("", "", " FIRST", f" AFTER {other}"))
        option = rng.choice(("", "IF EXISTS ")) if self._mariadb else ""
        choices = (
            (8, f"ADD COLUMN {'IF NOT EXISTS ' if option else ''}{new} {definition(rng)}{place}"),
            (1, f"ADD COLUMN {new} INT AUTO_INCREMENT UNIQUE"),
            (3, f"DROP COLUMN {option}{name}"),
            (4, f"CHANGE COLUMN {name} {new} {definition(rng, column)}{place}"),
            (3, f"RENAME COLUMN {name} TO {new}"),
            (1, f"RENAME COLUMN {name} TO {other}, RENAME COLUMN {other} TO {name}"),
            (8, f"MODIFY COLUMN {option}{name} {definition(rng, column)}{place}"),
            (2, f"ALTER COLUMN {name} SET DEFAULT {rng.choice(('9', 'NULL'))}"),
            (1, f"ALTER COLUMN {name} DROP DEFAULT"),
            (1, f"CONVERT TO CHARACTER SET {self._charset()}"),
            (1, f"DEFAULT CHARACTER SET {self._charset()}"),
            (1, f"DROP PRIMARY KEY, ADD PRIMARY KEY ({rng.choice((name, f'{name}, {other}'))})"),
            (1, "DROP PRIMARY KEY"),
            (1, f"ADD PRIMARY KEY ({name})"),
            (1, f"COMMENT 'number {rng.randrange(9)}'"),
            (1, f"ADD {rng.choice(('INDEX', 'UNIQUE'))} i{rng.randrange(9)} ({name})"),
            (1, f"DROP INDEX i{rng.randrange(9)}"),
            (1, f"ADD CONSTRAINT CHECK ({name} IS NULL OR {name} = {name})"),
            (1, rng.choice(("ENGINE = InnoDB", "FORCE", "ALGORITHM = COPY", "LOCK = SHARED", f"ORDER BY {name}"))),
            (1, f"RENAME TO {quote(self._databases[table.database])}.{quote(rng.choice(TABLES))}"),
        )
        return rng.choices([text for _, text in choices], [weight for weight, _ in choices])[0]

    def _rename(self, table: Table, tables: Sequence[Table]) -> str:
        """A RENAME of one table, a pair, a swap, or several after each other; mostly with rows of the new names."""
        rng, path, other = self._rng, self._path(table), self._rng.choice(tables)
        places = [(database, name) for database in (0, 1) for name in TABLES]
        free = [place for place in places if place not in {(one.database, one.name) for one in tables}]
        if other != table and rng.random() < 0.3:
            side, that = f"{quote(self._databases[0])}.`side`", self._path(other)
            self._follow_up([self._to(table, other), self._to(other, table)], tables)
            return f"RENAME TABLE {path} TO {side}, {that} TO {path}, {side} TO {that}"
        if len(free) < 3 or rng.random() < 0.2:
            return f"RENAME TABLE {path} TO {quote(rng.choice(self._databases))}.{quote(rng.choice(TABLES))}"
        first, second, third = (replace(table, database=at, name=name) for at, name in rng.sample(free, 3))
        moved = f"RENAME TABLE {path} TO {self._path(first)}"
        if other != table and rng.random() < 0.4:
            self._follow_up([first, self._to(other, second)], tables)
            return f"{moved}, {self._path(other)} TO {self._path(second)}"
        self._follow_up([third], tables)
        for one, after in ((second, third), (first, second)):
            self._next.append(f"RENAME TABLE {self._path(one)} TO {self._path(after)}")
            self._follow_up([one], tables)
        self._next = self._next[-rng.choice((1, 2, 4, 6)) :]
        return moved

    def _follow_up(self, renamed: Sequence[Table], tables: Sequence[Table]) -> None:
        """Some changes of these tables come next."""
        self._next += [self._change(self._rng.choice(renamed), tables) for _ in range(self._rng.randint(0, 3))]

    def _to(self, table: Table, place: Table) -> Table:
        return replace(table, database=place.database, name=place.name)

    def _partition(self, table: Table, tables: Sequence[Table]) -> str:
        rng, path = self._rng, self._path(table)
        part = rng.choice(table.partitions)
        alike = [one for one in tables if one.columns == table.columns and not one.partitions]
        if alike and rng.random() < 0.4:
            return f"ALTER TABLE {path} EXCHANGE PARTITION {part} WITH TABLE {self._path(rng.choice(alike))}"
        clauses = (
            f"DROP PARTITION {part}",
            f"TRUNCATE PARTITION {part}",
            f"REBUILD PARTITION {part}",
            "COALESCE PARTITION 1",
            "REMOVE PARTITIONING",
        )
        return f"ALTER TABLE {path} {rng.choice(clauses)}"

    def _temporary(self, table: Table) -> str:
        """A table that hides another one from this session for a while."""
        path = self._path(table)
        self._next = [f"DROP TEMPORARY TABLE {path}", self._alter(table), f"INSERT INTO {path} VALUES (1)"]
        return f"CREATE TEMPORARY TABLE {path} (`id` INT)"

    def _drop_database(self) -> str:
        database = quote(self._databases[1])
        self._next = [f"CREATE DATABASE {database}"]
        return f"DROP DATABASE {database}"

    def _path(self, table: Table) -> str:
        return f"{quote(self._databases[table.database])}.{quote(table.name)}"

    def _column(self, table: Table) -> str:
        name = self._rng.choice(table.columns).name
        return quote(name.upper() if self._rng.random() < 0.1 else name)

    def _charset(self) -> str:
        return self._rng.choice(("latin1", "utf8mb4", "utf8mb4", "cp1251"))

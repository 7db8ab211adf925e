"""Random DML on tables with keys of many kinds. The same seed gives the same script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Literal = Callable[[Random], str]
_LETTERS = ("a", "A", "á", "B", "b", "ß", "ss", "ö", "Z", "z", " ", "-", "_", "9", "一", "😀")


@dataclass(frozen=True, slots=True)
class Table:
    """`columns`: those of the key, each with what draws a literal. Every table also has `v`, `n` and `big`."""

    name: str
    columns: tuple[tuple[str, str, Literal], ...]
    index: str = ""

    @property
    def create(self) -> str:
        listed = ", ".join(f"{name} {kind}" for name, kind, _ in self.columns)
        return (
            f"CREATE TABLE {self.name} ({listed}, v VARCHAR(60), n INT, big LONGTEXT{self.index and ', '}{self.index})"
        )


def _word(rng: Random) -> str:
    return "'" + "".join(rng.choice(_LETTERS) for _ in range(rng.randrange(4))) + "'"


def _ascii(rng: Random) -> str:
    return "'" + "".join(rng.choice("abAB z") for _ in range(rng.randrange(4))) + "'"


def _bytes(rng: Random) -> str:
    return f"X'{rng.randbytes(rng.randrange(5)).hex()}'"


def _number(rng: Random) -> str:
    return str(
        rng.choice((rng.randrange(20), rng.randrange(10**6), 2**63 + rng.randrange(50), 2**64 - 1 - rng.randrange(99)))
    )


def _maybe(literal: Literal) -> Literal:
    return lambda rng: "NULL" if rng.random() < 0.3 else literal(rng)


def _small(rng: Random) -> str:
    return str(rng.randrange(-40, 40))


def _time(rng: Random) -> str:
    return f"'20{rng.randrange(10, 40)}-01-{rng.randrange(1, 28):02} 00:00:00.{rng.randrange(1000):03}'"


def tables(collation: str = "utf8mb4_unicode_ci") -> list[Table]:
    """`collation` is one that takes letters for the same whatever their accents and case."""
    text, padded = f"VARCHAR(9) COLLATE {collation}", "CHAR(9) CHARACTER SET latin1 NOT NULL"
    word, number = ("a", f"{text} NOT NULL", _word), ("b", "INT NOT NULL", _small)
    moment, price = ("a", "DATETIME(3) NOT NULL", _time), ("b", "DECIMAL(9,2) NOT NULL", _small)
    return [
        Table("composite", (word, number), "PRIMARY KEY (b, a)"),
        Table("word", (word,), "PRIMARY KEY (a)"),
        Table("padded", (("a", padded, _ascii), number), "PRIMARY KEY (a, b)"),
        Table("octets", (("a", "VARBINARY(9) NOT NULL", _bytes),), "PRIMARY KEY (a)"),
        Table("fixed", (("a", "BINARY(4) NOT NULL", _bytes),), "PRIMARY KEY (a)"),
        Table("sparse", (("a", "BIGINT UNSIGNED NOT NULL", _number),), "PRIMARY KEY (a)"),
        Table("moment", (moment, price), "PRIMARY KEY (a, b)"),
        Table("some", (("a", text, _maybe(_word)), ("b", "INT", _maybe(_small))), "UNIQUE (a, b)"),
        Table("uniq", (word, number), "UNIQUE (b, a)"),
        Table("copies", (("a", "INT", _maybe(_small)),)),
    ]


class Script:
    """Statements of one writer, in transactions that may last. `longest`: the most characters of a value."""

    def __init__(self, rng: Random, tables: list[Table], longest: int = 2000) -> None:
        self._rng, self._tables, self._longest = rng, tables, longest

    def rows(self, table: Table, count: int) -> str:
        """An INSERT of so many rows; keys that are there already are left out."""
        rng = self._rng
        rows = ", ".join(
            f"({', '.join(literal(rng) for _, _, literal in table.columns)}, {self._rest()})" for _ in range(count)
        )
        return f"INSERT IGNORE INTO {table.name} VALUES {rows}"

    def statement(self) -> str:
        """What the server may refuse is refused whole: a lock that another writer has, a key that is there."""
        rng, table = self._rng, self._rng.choice(self._tables)
        name, column = table.name, rng.choice(table.columns)
        draw = rng.random()
        if draw < 0.30:
            return self.rows(table, rng.choice((1, 3, 40)))
        if draw < 0.38:
            return self.rows(table, 5).replace("INSERT IGNORE", "REPLACE")
        if draw < 0.46:
            return f"{self.rows(table, 5)} ON DUPLICATE KEY UPDATE n = n + 1, v = CONCAT(LEFT(v, 40), '+')"
        if draw < 0.60:
            return f"UPDATE {name} SET v = {self._text()}, n = {rng.randrange(99)} {self._where(table)}"
        if draw < 0.74:
            other = f"{column[0]} = {column[2](rng)}"
            return f"UPDATE IGNORE {name} SET {other} {self._where(table)} LIMIT {rng.choice((1, 1, 4))}"
        if draw < 0.76:
            big = f"REPEAT({self._text()}, {rng.randrange(self._longest)})"
            return f"UPDATE {name} SET big = {big} {self._where(table)} LIMIT 2"
        if draw < 0.90:
            return f"DELETE FROM {name} {self._where(table)} LIMIT {rng.choice((1, 5, 30))}"
        return rng.choice(("BEGIN", "BEGIN", "COMMIT", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO SAVEPOINT s"))

    def _where(self, table: Table) -> str:
        rng = self._rng
        column, _, literal = rng.choice(table.columns)
        draw = rng.random()
        if draw < 0.4:
            return f"WHERE {column} {rng.choice(('=', '<=', '>', '<>'))} {literal(rng)}"
        return f"WHERE n % 7 = {rng.randrange(7)}" if draw < 0.8 else f"WHERE n = {rng.randrange(99)}"

    def _rest(self) -> str:
        rng = self._rng
        return (
            f"{self._text()}, {rng.choice(('NULL', '1'))} * {rng.randrange(99)}, {rng.choice(('NULL', self._text()))}"
        )

    def _text(self) -> str:
        return f"'{''.join(self._rng.choice(_LETTERS) for _ in range(self._rng.randrange(12)))}'"

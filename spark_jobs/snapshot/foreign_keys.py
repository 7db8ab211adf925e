"""Foreign keys whose cascades change rows: values, read from the source's catalogue.

InnoDB changes the rows of the referencing table itself. MySQL writes those changes into no binlog before 9.6, and
MariaDB never does (MySQL manual, "FOREIGN KEY Constraints"; MariaDB, "Foreign Keys").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any

import pymysql

from spark_jobs.snapshot.sql import quote


class Rule(StrEnum):
    """The effect on rows that reference a row which is deleted, or whose key changes."""

    CASCADE = "CASCADE"
    SET_NULL = "SET NULL"
    RESTRICT = "RESTRICT"  # NO ACTION and SET DEFAULT are the same in InnoDB: the parent's change is refused


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """`columns` of `child` reference `referenced` of `parent`; both tables are (database, table)."""

    child: tuple[str, str]
    columns: tuple[str, ...]
    parent: tuple[str, str]
    referenced: tuple[str, ...]
    on_delete: Rule
    on_update: Rule


_QUERY = """
SELECT k.constraint_schema, k.constraint_name, k.table_schema, k.table_name, k.column_name, k.referenced_table_schema,
       k.referenced_table_name, k.referenced_column_name, r.delete_rule, r.update_rule
FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r
  ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name AND r.table_name = k.table_name
WHERE k.referenced_table_name IS NOT NULL
  AND (r.delete_rule IN ('CASCADE', 'SET NULL') OR r.update_rule IN ('CASCADE', 'SET NULL'))
ORDER BY k.constraint_schema, k.table_name, k.constraint_name, k.ordinal_position
"""


_LIST = r"`(?:[^`]|``)+`(?:(?:, |\.)`(?:[^`]|``)+`)*"
_NAME = re.compile(r"`((?:[^`]|``)+)`")
_SHOWN = re.compile(
    rf"^ *CONSTRAINT `(?:[^`]|``)*` FOREIGN KEY \((?P<columns>{_LIST})\) REFERENCES (?P<parent>{_LIST}) "
    rf"\((?P<referenced>{_LIST})\)(?P<rules>.*)$",
    re.MULTILINE,
)
_RULES = re.compile(r"ON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT|NO ACTION|RESTRICT)")


def read_foreign_keys(
    connection: pymysql.Connection[Any], captured: Callable[[], Iterable[tuple[str, str]]], since: int | None = None
) -> tuple[ForeignKey, ...]:
    """Returns all foreign keys that change rows without the binlog, or may have done so `since` then. MariaDB's
    catalogue shows them only to accounts that may do more than SELECT: there the `captured` tables are asked one by
    one."""
    if logs_cascades(connection, since):
        return ()
    with connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        if "mariadb" in _text((cursor.fetchone() or ("",))[0]).lower():
            return tuple(key for table in captured() for key in _shown_keys(connection, table))
        cursor.execute(_QUERY)
        rows = [tuple(_text(value) for value in row) for row in cursor.fetchall()]
    return tuple(_foreign_key(list(part)) for _, part in groupby(rows, key=lambda row: row[:4]))


def logs_cascades(connection: pymysql.Connection[Any], since: int | None = None) -> bool:
    """Whether the server does the cascades above InnoDB and logs them, as MySQL 9.6 and later do; `since`, in
    milliseconds: whether it has done so since then. A start of the server may have changed it."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW VARIABLES LIKE 'innodb_native_foreign_keys'")
        native = cursor.fetchone()
        if native is None or _text(native[1]).upper() != "OFF":
            return False
        if since is None:
            return True
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Uptime'")
        _, uptime = cursor.fetchone() or ("", "0")
        cursor.execute("SELECT UNIX_TIMESTAMP()")
        (now,) = cursor.fetchone() or (0,)
    return since > 1000 * (float(now) - float(_text(uptime)))


def _shown_keys(connection: pymysql.Connection[Any], table: tuple[str, str]) -> list[ForeignKey]:
    """Returns the foreign keys in SHOW CREATE TABLE; empty for a table that is gone. The answer has the default of a
    BINARY column unchanged, which may not be valid text."""
    connection.use_unicode = False
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SHOW CREATE TABLE {quote(table[0])}.{quote(table[1])}")
            shown = cursor.fetchone()
    except pymysql.err.ProgrammingError:
        return []
    finally:
        connection.use_unicode = True
    return keys_in(shown[1].decode(errors="replace"), table) if shown else []


def keys_in(statement: str, child: tuple[str, str]) -> list[ForeignKey]:
    """The foreign keys that change rows in the text of a SHOW CREATE TABLE."""
    found = []
    for key in _SHOWN.finditer(statement):
        rules = {verb: _rule(rule) for verb, rule in _RULES.findall(key["rules"])}
        on_delete, on_update = rules.get("DELETE", Rule.RESTRICT), rules.get("UPDATE", Rule.RESTRICT)
        if {on_delete, on_update} != {Rule.RESTRICT}:
            names = [_names(key[part]) for part in ("columns", "parent", "referenced")]
            parent = (child[0], names[1][0]) if len(names[1]) == 1 else (names[1][0], names[1][1])
            found.append(ForeignKey(child, names[0], parent, names[2], on_delete, on_update))
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.replace("``", "`") for name in _NAME.findall(text))


def affected(keys: Iterable[ForeignKey], parent: tuple[str, str]) -> tuple[ForeignKey, ...]:
    """The foreign keys that reference `parent`."""
    return tuple(key for key in keys if key.parent == parent)


def ancestors(keys: Iterable[ForeignKey], child: tuple[str, str]) -> frozenset[tuple[str, str]]:
    """Returns the tables whose deletes cascade to rows of `child`, through others as well."""
    known, found = list(keys), set[tuple[str, str]]()
    wanted = {child}
    while wanted:
        wanted = {key.parent for key in known if key.child in wanted} - found
        found |= wanted
    return frozenset(found)


def descendants(keys: Iterable[ForeignKey], parent: tuple[str, str]) -> frozenset[tuple[str, str]]:
    """Returns the tables to which deletes of `parent` cascade, through others as well; `parent` too if it references
    itself."""
    known, found = list(keys), set[tuple[str, str]]()
    wanted = {parent}
    while wanted:
        wanted = {key.child for key in known if key.parent in wanted} - found
        found |= wanted
    return frozenset(found)


def below(keys: Iterable[ForeignKey], first: Iterable[ForeignKey]) -> tuple[ForeignKey, ...]:
    """Returns the foreign keys that reference rows which the cascades of `first` may delete, or whose key they may
    change, and the foreign keys below these, the nearest first."""
    known, found, pending = list(keys), dict[ForeignKey, None](), list(first)
    while pending:
        upper, pending = pending, []
        for one in (lower for key in upper for lower in affected(known, key.child) if _passes_on(key, lower)):
            if one not in found:
                found[one] = None
                pending.append(one)
    return tuple(found)


def _passes_on(upper: ForeignKey, lower: ForeignKey) -> bool:
    """Whether the cascade of one foreign key may remove from its child a key that the other one references."""
    return upper.on_delete is Rule.CASCADE or not {*upper.columns}.isdisjoint(lower.referenced)


def _foreign_key(rows: Sequence[tuple[str, ...]]) -> ForeignKey:
    first = rows[0]
    return ForeignKey(
        (first[2], first[3]),
        tuple(row[4] for row in rows),
        (first[5], first[6]),
        tuple(row[7] for row in rows),
        _rule(first[8]),
        _rule(first[9]),
    )


def _rule(name: str) -> Rule:
    return Rule(name) if name in (Rule.CASCADE, Rule.SET_NULL) else Rule.RESTRICT


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)

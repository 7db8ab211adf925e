"""The state of the session that ran a statement, as far as its event has it.

The values of old rows are computed from a statement's text only in a session whose whole state is modelled here. In any
other session no column is read from the text: the catalogue gives the definition, and old rows are copied.
Sources: MySQL manual, "Server SQL Modes"; MariaDB, "SQL Mode"; MySQL source documentation, "Query_event".
"""

from __future__ import annotations

from dataclasses import dataclass

_STRICT = 1 << 21 | 1 << 22  # STRICT_TRANS_TABLES, STRICT_ALL_TABLES
# Modes that no value depends on, and those that `sql_text.Dialect` models
_MODELLED = _STRICT | sum(
    1 << bit
    for bit in (
        1,  # PIPES_AS_CONCAT: of expressions, which the server alone evaluates
        2,  # ANSI_QUOTES
        3,  # IGNORE_SPACE
        4,  # IGNORE_BAD_TABLE_OPTIONS, of MariaDB
        5,  # ONLY_FULL_GROUP_BY
        6,  # NO_UNSIGNED_SUBTRACTION
        7,  # NO_DIR_IN_CREATE
        19,  # NO_AUTO_VALUE_ON_ZERO
        20,  # NO_BACKSLASH_ESCAPES
        23,  # NO_ZERO_IN_DATE
        24,  # NO_ZERO_DATE
        25,  # ALLOW_INVALID_DATES: dates that do not exist are not rendered
        26,  # ERROR_FOR_DIVISION_BY_ZERO
        27,  # TRADITIONAL: stands for others of this list
        28,  # NO_AUTO_CREATE_USER
        29,  # HIGH_NOT_PRECEDENCE
        30,  # NO_ENGINE_SUBSTITUTION
    )
)


@dataclass(frozen=True, slots=True)
class SessionState:
    """What an event's status variables say; None and 0 where they do not. `client`, `connection`, `server` and
    `utf8mb4` are ids of collations, the last the default one of that character set. `complete`: each of the variables
    is known to us. The time zone is not here: no value that depends on it is computed."""

    sql_mode: int | None = None
    client: int = 0
    connection: int = 0
    server: int = 0
    utf8mb4: int = 0
    explicit_timestamps: bool | None = None
    complete: bool = True

    @property
    def modelled(self) -> bool:
        """Whether all of its state is known and understood."""
        return self.complete and self.sql_mode is not None and not self.sql_mode & ~_MODELLED

    @property
    def strict(self) -> bool:
        return bool((self.sql_mode or 0) & _STRICT)

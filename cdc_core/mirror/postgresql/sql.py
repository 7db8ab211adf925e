"""Names, values and checks in PostgreSQL's SQL. Source: PostgreSQL 15 manual, "Lexical Structure", "PL/pgSQL"."""

from __future__ import annotations


def literal(value: str | bytes | int | None) -> str:
    """A value as SQL has it; its type is that of the column."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value is None:
        return "NULL"
    return f"'\\x{value.hex()}'" if isinstance(value, bytes) else f"'{value}'"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def stops_where(condition: str, message: str) -> str:
    """A statement that fails where the condition holds."""
    raised = f"RAISE not_null_violation USING MESSAGE = {literal(message)}"
    return "DO " + literal(f"BEGIN IF {condition} THEN {raised}; END IF; END")


def without_key(table: str) -> str:
    """Drops the primary key, whose name is known to the target alone."""
    found = f"SELECT conname INTO key FROM pg_constraint WHERE conrelid = {literal(table)}::regclass AND contype = 'p'"  # noqa: S608
    drop = f"EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', {literal(table)}, key)"
    return "DO " + literal(f"DECLARE key name; BEGIN {found}; IF key IS NOT NULL THEN {drop}; END IF; END")


def without_schema(name: str) -> str:
    """Drops a schema's tables, and then the schema: one in which somebody has other things is refused."""
    tables = f"SELECT tablename FROM pg_tables WHERE schemaname = {literal(name)}"  # noqa: S608
    drop = f"EXECUTE format('DROP TABLE %I.%I', {literal(name)}, one)"
    last = f"DROP SCHEMA IF EXISTS {quoted(name)}"
    return "DO " + literal(f"DECLARE one name; BEGIN FOR one IN {tables} LOOP {drop}; END LOOP; {last}; END")

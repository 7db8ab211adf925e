"""Names, values and checks in PostgreSQL's SQL. Source: PostgreSQL 15 manual, "Lexical Structure", "PL/pgSQL"."""

from __future__ import annotations

from cdc_core.canal.mirror.sql import Unfit


def literal(value: str | bytes | int | None) -> str:
    """A value as SQL has it. Its type is the column's; bytes are always bytes, so that no text takes them. Raises
    Unfit."""
    if isinstance(value, str):
        if "\0" in value:
            raise Unfit("PostgreSQL has no texts with the character NUL: leave the column out")
        return "'" + value.replace("'", "''") + "'"
    if value is None:
        return "NULL"
    return f"'\\x{value.hex()}'::bytea" if isinstance(value, bytes) else f"'{value}'"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def stops_where(condition: str, message: str) -> str:
    """A statement that fails where the condition holds."""
    raised = f"RAISE not_null_violation USING MESSAGE = {literal(message)}"
    return "DO " + literal(f"BEGIN IF {condition} THEN {raised}; END IF; END")


def without_key(table: str) -> str:
    """Drops the primary key, whose name is known to the target alone. Its columns take NULL then."""
    place = literal(table)
    drop = f"EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', {place}, key)"
    columns = f"SELECT attname FROM pg_attribute WHERE attrelid = {place}::regclass AND attnum = ANY(numbers)"  # noqa: S608
    null = f"EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', {place}, one)"
    return _of_key(table, f"{drop}; FOR one IN {columns} LOOP {null}; END LOOP")


def with_own_key(table: str) -> str:
    """Gives the primary key a name that no other has: it goes with its table to another schema."""
    rename = f"EXECUTE format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', {literal(table)}, key, 'pk_' || id)"
    return _of_key(table, rename)


def _of_key(table: str, statements: str) -> str:
    found = "SELECT oid, conname, conkey INTO id, key, numbers FROM pg_constraint"
    where = f"conrelid = to_regclass({literal(table)}) AND contype = 'p'"
    variables = "id oid; key name; one name; numbers int2[]"
    return "DO " + literal(f"DECLARE {variables}; BEGIN {found} WHERE {where}; IF FOUND THEN {statements}; END IF; END")


def without_column(table: str, column: str) -> str:
    """Drops a column. The primary key keeps its other columns, as at MySQL, where PostgreSQL would drop it."""
    place = literal(table)
    others = f"string_agg(quote_ident(attname), ', ' ORDER BY nr) FILTER (WHERE attname <> {literal(column)})"
    rest = (
        f"SELECT {others} INTO rest FROM pg_constraint JOIN unnest(conkey) WITH ORDINALITY AS part (number, nr) "  # noqa: S608
        f"ON true JOIN pg_attribute ON attrelid = conrelid AND attnum = number WHERE conrelid = {place}::regclass "
        f"AND contype = 'p' HAVING bool_or(attname = {literal(column)})"
    )
    drop = f"EXECUTE format('ALTER TABLE %s DROP COLUMN %I', {place}, {literal(column)})"
    again = f"EXECUTE format('ALTER TABLE %s ADD PRIMARY KEY (%s)', {place}, rest)"
    return "DO " + literal(f"DECLARE rest text; BEGIN {rest}; {drop}; IF rest IS NOT NULL THEN {again}; END IF; END")


def without_schema(name: str) -> str:
    """Drops a schema's tables, and then the schema: one in which somebody has other things is refused."""
    tables = f"SELECT tablename FROM pg_tables WHERE schemaname = {literal(name)}"  # noqa: S608
    drop = f"EXECUTE format('DROP TABLE %I.%I', {literal(name)}, one)"
    last = f"DROP SCHEMA IF EXISTS {quoted(name)}"
    return "DO " + literal(f"DECLARE one name; BEGIN FOR one IN {tables} LOOP {drop}; END LOOP; {last}; END")

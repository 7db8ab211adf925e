"""The default collation of a database after CREATE DATABASE and ALTER DATABASE."""

from __future__ import annotations

from cdc_core.schema.conventions import Conventions
from cdc_core.schema.ddl import Ddl
from cdc_core.schema.ddl_options import option
from cdc_core.schema.ddl_words import NotUnderstood, Reader
from cdc_core.schema.sql_text import LARGE, Dialect


def database_after(ddl: Ddl, conventions: Conventions) -> dict[str, str]:
    """The collation by the database's name, "" where the text does not say it; nothing for other statements."""
    if len(ddl.text) > LARGE:  # a database has no such statement
        return {}
    try:
        reader = Reader(ddl.text, Dialect(mariadb=conventions.mariadb))
        verb = reader.take_any("CREATE", "ALTER")
        reader.take("OR", "REPLACE")
        if not verb or not reader.take_any("DATABASE", "SCHEMA"):
            return {}
    except NotUnderstood:
        return {}
    conditional = reader.take("IF", "NOT", "EXISTS")
    name = ddl.database
    try:
        if not (verb == "ALTER" and reader.sees_any("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "COMMENT")):
            name = reader.name()
        collation = conventions.server_collation if verb == "CREATE" else ""
        charset = ""
        while not reader.done:
            key, value = option(reader)
            if key == "CHARSET":
                found = conventions.charset(value)
                charset, collation = (found.name, found.collation) if found else ("", "")
            elif key == "COLLATE":
                collation = conventions.collation(value, charset)
    except NotUnderstood:
        collation = ""
    return {name: "" if conditional else collation}

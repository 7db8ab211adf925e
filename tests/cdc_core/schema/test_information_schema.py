"""The catalogue of real servers, compared with their TABLE_MAPs."""

from __future__ import annotations

from dataclasses import replace

import pymysql
import pytest

from cdc_core.charsets.charsets import charset
from cdc_core.charsets.collations import RANGES
from cdc_core.errors import SchemaError, SourceUnavailable
from cdc_core.schema.information_schema import complete, definition, list_tables
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql.server import MySqlServer
from tests.support.matrix_runs import row_metadata
from tests.support.table_maps import RICH, definitions

SERVERS = ["mysql8", "mysql57", "mysql9", "mariadb"]


def written(server: MySqlServer, database: str) -> TableSchema:
    """The definition in the binlog of a table that now exists."""
    (schema,) = definitions(
        server, RICH.format(database=database), f"INSERT INTO {database}.rich (id, s) VALUES (1, 2)"
    )
    return schema


@pytest.mark.integration
@pytest.mark.parametrize("name", SERVERS)
def test_completed_is_the_same_from_all_servers(name: str, request: pytest.FixtureRequest) -> None:
    """Names, key, signs, labels and character sets are there whatever the event holds; types stay right."""
    server = request.getfixturevalue(name)
    with server.database() as database:
        event = written(server, database)
        schema = complete(event, server.connect)

        found = {column.name: column for column in schema.columns}
        assert schema.primary_key == ("s", "id")
        assert [(c.type_code, c.meta) for c in schema.columns] == [(c.type_code, c.meta) for c in event.columns]
        assert [found[n].unsigned for n in ("id", "ti", "f", "n", "y", "s")] == [True, True, True, True, False, False]
        assert found["e"].labels == ("x", "é", "it's")
        assert [found[n].charset for n in ("v", "a", "bi", "lb")] == [8, 11, 63, 63]
        assert found["n"].column_type == "decimal(20,5) unsigned"


@pytest.mark.integration
@pytest.mark.parametrize("name", SERVERS)
def test_listed_tables_are_as_their_events_will_be(name: str, request: pytest.FixtureRequest) -> None:
    """Type codes, lengths and comments are known before the first event; the filter decides which tables."""
    server = request.getfixturevalue(name)
    with server.database() as database:
        event = written(server, database)
        server.execute(f"CREATE TABLE {database}.other (i INT)", f"ALTER TABLE {database}.rich COMMENT 'of all types'")
        with server.connect() as connection:
            (listed,) = list_tables(connection, lambda owner, table: (owner, table) == (database, "rich"))

        assert [(c.type_code, c.meta) for c in listed.columns] == [(c.type_code, c.meta) for c in event.columns]
        assert listed.primary_key == ("s", "id")
        assert listed.comment == "of all types"


@pytest.mark.integration
@pytest.mark.parametrize("name", ["mysql8", "mysql9", "mariadb"])
def test_a_unique_index_in_the_place_of_a_primary_key(name: str, request: pytest.FixtureRequest) -> None:
    """The key is the one that events with FULL metadata name: the first UNIQUE index without NULLs and prefixes. It is
    none where events name none."""
    server = request.getfixturevalue(name)
    with server.database() as database, server.root() as connection:
        for table, indexes, index, key in (
            ("a", "KEY (n), UNIQUE nn (n), UNIQUE bb (b, a), UNIQUE aa (a)", "bb", ("b", "a")),
            ("b", "UNIQUE pp (b(2)), UNIQUE ab (a, b)", "ab", ("a", "b")),
            ("c", "UNIQUE pp (b(2)), UNIQUE nn (n, a)", "PRIMARY", ()),
            ("d", "UNIQUE bb (b), PRIMARY KEY (a)", "PRIMARY", ("a",)),
        ):
            (event,) = definitions(
                server,
                f"CREATE TABLE {database}.{table} (n INT, a INT NOT NULL, b VARCHAR(5) NOT NULL, {indexes})",
                f"INSERT INTO {database}.{table} VALUES (1, 2, 'x')",
            )
            found = definition(connection, database, table)
            assert found is not None
            assert (found.key_index, found.primary_key, event.primary_key) == (index, key, key)
            assert TableSchema.from_dict(found.to_dict()).key_index == index
        with row_metadata(server, "MINIMAL"):
            less = definition(connection, database, "a")
        assert less is not None
        assert less.primary_key == ()


@pytest.mark.integration
@pytest.mark.parametrize("name", SERVERS)
def test_every_collation_of_a_server_is_known(name: str, request: pytest.FixtureRequest) -> None:
    """Each id has the character set that the server gives it."""
    server = request.getfixturevalue(name)
    table = "collations" if name != "mariadb" else "collation_character_set_applicability"
    known = {number: name for name, spans in RANGES.items() for low, high in spans for number in range(low, high + 1)}
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT id, character_set_name FROM information_schema.{table} WHERE id IS NOT NULL")
        listed = {number: {"utf8": "utf8mb3"}.get(charset, charset) for number, charset in cursor.fetchall()}

    assert listed == {number: known.get(number) for number in listed}


@pytest.mark.integration
def test_a_collation_that_fits_several_character_sets(mariadb: MySqlServer) -> None:
    """MariaDB lists its id under a full name; without metadata only the catalogue has the set."""
    with mariadb.database() as database:
        ddl = f"CREATE TABLE {database}.t (a VARCHAR(9) CHARACTER SET utf16 COLLATE uca1400_ai_ci)"
        with row_metadata(mariadb, "NO_LOG"):
            (event,) = definitions(mariadb, ddl, f"INSERT INTO {database}.t VALUES ('é')")

        (column,) = complete(event, mariadb.connect).columns

        assert charset(column).name == "utf16"


@pytest.mark.integration
def test_old_fractions_of_mariadb_are_refused(mariadb: MySqlServer) -> None:
    """Their length is not in the event; whole seconds of that format are read."""
    with mariadb.database() as database:
        ddl = f"CREATE TABLE {database}.t (a TIME, b DATETIME, c TIMESTAMP NULL)"
        own = "SET GLOBAL mysql56_temporal_format = "
        row = f"INSERT INTO {database}.t VALUES ('01:02:03', '2024-02-29', '2024-02-29')"
        try:
            (event,) = definitions(mariadb, own + "OFF", ddl, row)
            assert [c.type_code for c in complete(event, mariadb.connect).columns] == [11, 12, 7]
            (event,) = definitions(mariadb, f"ALTER TABLE {database}.t MODIFY b DATETIME(3)", row)
            with pytest.raises(SchemaError, match=r"b: datetime\(3\) .* in the format .* mysql56_temporal_format"):
                complete(event, mariadb.connect)
        finally:
            mariadb.execute(own + "ON")


@pytest.mark.integration
def test_comments_come_from_the_catalogue(mysql8: MySqlServer) -> None:
    """Events have no comments."""
    with mysql8.database() as database:
        (event,) = definitions(
            mysql8,
            f"CREATE TABLE {database}.t (id INT PRIMARY KEY COMMENT 'the key', j JSON) COMMENT 'a table'",
            f"INSERT INTO {database}.t VALUES (1, '[]')",
        )

        schema = complete(event, mysql8.connect)

        assert (schema.comment, schema.columns[0].comment) == ("a table", "the key")
        assert [c.column_type for c in schema.columns] == ["int", "json"]
        assert schema.version == event.version


@pytest.mark.integration
def test_a_catalogue_that_does_not_fit_is_not_used(mysql8: MySqlServer) -> None:
    """FULL metadata then stands alone; without names the definition is refused."""
    with mysql8.database() as database:
        event = written(mysql8, database)
        mysql8.execute(f"ALTER TABLE {database}.rich DROP COLUMN y")
        nameless = replace(event, columns=tuple(replace(c, name="") for c in event.columns), primary_key=())

        assert complete(event, mysql8.connect) == event
        with pytest.raises(SchemaError, match="the table has changed since") as caught:
            complete(nameless, mysql8.connect)
        assert "binlog_row_metadata=FULL" in caught.value.hint


def test_a_server_that_is_away() -> None:
    """No definition without its share of the catalogue, also where the event has names: the caller tries again."""

    def away() -> pymysql.Connection[pymysql.cursors.Cursor]:
        raise pymysql.err.OperationalError(1040, "Too many connections")

    named = TableSchema.from_dict(
        {"database": "d", "table": "t", "columns": [{"name": "id", "type_code": 3, "meta": 0}], "primary_key": []}
    )

    for event in (named, replace(named, columns=(replace(named.columns[0], name=""),))):
        with pytest.raises(SourceUnavailable, match="the catalogue cannot be read"):
            complete(event, away)

"""The catalogue of real servers beside their TABLE_MAPs."""

from __future__ import annotations

from dataclasses import replace

import pymysql
import pytest

from cdc_core.binlog.columns.charsets import charset
from cdc_core.binlog.columns.collations import RANGES
from cdc_core.errors import SchemaError
from cdc_core.schema.information_schema import complete, list_tables
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql import MySqlServer
from tests.matrix_runs import row_metadata
from tests.test_table_map import RICH, definitions

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
    """Names, key, signs, labels and character sets are there whatever the event says; it stays right on types."""
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
    """Type codes, lengths and comments can be told before the first event; the filter decides which tables."""
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
@pytest.mark.parametrize("name", SERVERS)
def test_every_collation_of_a_server_is_known(name: str, request: pytest.FixtureRequest) -> None:
    """By its id, with the character set that the server tells."""
    server = request.getfixturevalue(name)
    table = "collations" if name != "mariadb" else "collation_character_set_applicability"
    known = {number: name for name, spans in RANGES.items() for low, high in spans for number in range(low, high + 1)}
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT id, character_set_name FROM information_schema.{table} WHERE id IS NOT NULL")
        listed = {number: {"utf8": "utf8mb3"}.get(charset, charset) for number, charset in cursor.fetchall()}

    assert listed == {number: known.get(number) for number in listed}


@pytest.mark.integration
def test_a_collation_that_fits_several_character_sets(mariadb: MySqlServer) -> None:
    """MariaDB lists its id under its full name; without metadata in the event only the catalogue tells it."""
    with mariadb.database() as database:
        ddl = f"CREATE TABLE {database}.t (a VARCHAR(9) CHARACTER SET utf16 COLLATE uca1400_ai_ci)"
        with row_metadata(mariadb, "NO_LOG"):
            (event,) = definitions(mariadb, ddl, f"INSERT INTO {database}.t VALUES ('é')")

        (column,) = complete(event, mariadb.connect).columns

        assert charset(column).name == "utf16"


@pytest.mark.integration
def test_old_fractions_of_mariadb_are_refused(mariadb: MySqlServer) -> None:
    """Their length stands nowhere in the event; whole seconds of that time are read."""
    with mariadb.database() as database:
        ddl = f"CREATE TABLE {database}.t (a TIME, b DATETIME, c TIMESTAMP NULL)"
        own = "SET GLOBAL mysql56_temporal_format = "
        row = f"INSERT INTO {database}.t VALUES ('01:02:03', '2024-02-29', '2024-02-29')"
        try:
            (event,) = definitions(mariadb, own + "OFF", ddl, row)
            assert [c.type_code for c in complete(event, mariadb.connect).columns] == [11, 12, 7]
            (event,) = definitions(mariadb, f"ALTER TABLE {database}.t MODIFY b DATETIME(3)", row)
            with pytest.raises(SchemaError, match=r"b: datetime\(3\) .* in a form .* mysql56_temporal_format"):
                complete(event, mariadb.connect)
        finally:
            mariadb.execute(own + "ON")


@pytest.mark.integration
def test_comments_come_from_the_catalogue(mysql8: MySqlServer) -> None:
    """An event has none."""
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
        with pytest.raises(SchemaError, match="another by now") as caught:
            complete(nameless, mysql8.connect)
        assert "binlog_row_metadata=FULL" in caught.value.hint


def test_a_server_that_is_away() -> None:
    """FULL metadata does not need it."""

    def away() -> pymysql.Connection[pymysql.cursors.Cursor]:
        raise pymysql.err.OperationalError(2003, "away")

    named = TableSchema.from_dict(
        {"database": "d", "table": "t", "columns": [{"name": "id", "type_code": 3, "meta": 0}], "primary_key": []}
    )

    assert complete(named, away) == named
    with pytest.raises(SchemaError, match="cannot be read"):
        complete(replace(named, columns=(replace(named.columns[0], name=""),)), away)

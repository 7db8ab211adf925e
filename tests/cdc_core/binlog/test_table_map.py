"""TABLE_MAP events of real servers agree with their CREATE TABLE; damaged ones are refused."""

from __future__ import annotations

import contextlib

import pytest

from cdc_core.binlog import table_map
from cdc_core.errors import DecodeError
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_files import table_map_body
from tests.support.table_maps import RICH, definitions

EXPECTED = {
    "id": (8, 0, True), "y": (13, 0, False), "ti": (1, 0, True), "s": (2, 0, False), "m": (9, 0, True),
    "f": (4, 4, True), "n": (246, 20 << 8 | 5, True),
    "b1": (16, 1, False), "b64": (16, 8 << 8, False), "c": (254, 40, False),
    "wide": (254, 400, False), "v": (15, 20, False), "a": (15, 300, False), "bi": (254, 16, False),
    "g": (255, 4, False), "t": (252, 1, False), "lb": (252, 4, False), "e": (247, 1, False), "e2": (247, 1, False),
    "se": (248, 1, False),
    "dt": (18, 3, False), "ts": (17, 6, False), "tm": (19, 2, False), "da": (10, 0, False), "doubled": (3, 0, False),
}  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("name", ["mysql8", "mysql9", "mariadb"])
def test_full_metadata_says_it_all(name: str, request: pytest.FixtureRequest) -> None:
    """Types, lengths, signs, character sets, labels and key are as declared."""
    server = request.getfixturevalue(name)
    with server.database() as database:
        (schema,) = definitions(
            server, RICH.format(database=database), f"INSERT INTO {database}.rich (id, s) VALUES (1, 2)"
        )

        found = {column.name: column for column in schema.columns}
        assert {n: (c.type_code, c.meta, c.unsigned) for n, c in found.items()} == EXPECTED
        assert schema.name == f"{database}.rich"
        assert schema.primary_key == ("s", "id")
        assert found["e"].labels == ("x", "é", "it's")
        assert found["se"].labels == ("ü", "b")
        assert [found[n].charset for n in ("v", "a", "bi", "lb", "e2", "g")] == [8, 11, 63, 63, 8, 0]
        assert found["c"].charset == found["t"].charset == found["e"].charset != 0
        assert [found[n].nullable for n in ("id", "s", "e")] == [False, False, True]


@pytest.mark.integration
@pytest.mark.parametrize("name", ["mysql8", "mysql9", "mariadb"])
def test_a_key_of_prefixes_names_its_columns(name: str, request: pytest.FixtureRequest) -> None:
    """Columns are in the order of the key."""
    server = request.getfixturevalue(name)
    with server.database() as database:
        (schema,) = definitions(
            server,
            f"CREATE TABLE {database}.t (a VARCHAR(50), b TEXT, v INT, PRIMARY KEY (b(10), a(5)))",
            f"INSERT INTO {database}.t VALUES ('a', 'b', 1)",
        )

        assert schema.primary_key == ("b", "a")


@pytest.mark.integration
def test_without_metadata_only_types_are_known(mysql57: MySqlServer) -> None:
    """MySQL 5.7 sends neither names nor a key."""
    with mysql57.database() as database:
        (schema,) = definitions(
            mysql57,
            f"CREATE TABLE {database}.t (a INT PRIMARY KEY, b CHAR(5))",
            f"INSERT INTO {database}.t VALUES (1, 'b')",
        )

        assert [(c.name, c.type_code) for c in schema.columns] == [("", 3), ("", 254)]
        assert schema.primary_key == ()


def test_every_cut_of_an_event_is_refused() -> None:
    """A TABLE_MAP cut anywhere is damaged, except at the end of a whole optional field."""
    body = table_map_body("t", [("id", 8, b""), ("name", 15, b"\x14\x00")], [0])
    whole = table_map.parse(body)
    for end in range(len(body)):
        with contextlib.suppress(DecodeError):
            assert table_map.parse(body[:end]) != whole


def test_a_string_is_of_no_other_type() -> None:
    """The metadata of a string names CHAR, ENUM or SET; any other type is refused."""
    with pytest.raises(DecodeError, match="a string column has type 246"):
        table_map.parse(table_map_body("t", [("s", 254, b"\xf6\x0a")], []))


def test_an_unknown_type_is_refused() -> None:
    """Its length is unknown, so nothing after it can be read."""
    with pytest.raises(DecodeError, match="type code 200"):
        table_map.parse(table_map_body("t", [("id", 200, b"")], []))

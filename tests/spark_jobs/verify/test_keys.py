"""The text of a key, and the condition that finds its row, on real servers."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pytest

from cdc_core.schema.information_schema import definition
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.verify.keys import conditions
from spark_jobs.verify.lake_rows import rows_of_keys
from spark_jobs.verify.row_text import lake_text

pytestmark = pytest.mark.integration

KEYS = {
    "ci": ("VARCHAR(20) COLLATE utf8mb4_general_ci", ["'a'", "'B'", "'ä x'", "'c,1:d'", "''"]),
    "padded": ("CHAR(9) CHARACTER SET latin1", ["'a'", "'b '", "'é'"]),
    "bytes": ("BINARY(4)", ["x'00'", "x'0100'", "x'FFFFFFFF'"]),
    "number": ("BIGINT UNSIGNED", ["0", "18446744073709551615"]),
    "decimal": ("DECIMAL(20,9)", ["0", "-0.000000001", "12345678901.5"]),
    "long": ("DECIMAL(38,10)", ["1234567890123456789012345678.0123456789", "0.1"]),
    "double": ("DOUBLE", ["1e-20", "0.1", "-5"]),
    "float": ("FLOAT", ["0.1", "3.5"]),
    "moment": ("DATETIME(6)", ["'1000-01-01'", "'2024-02-29 01:02:03.000004'"]),
    "stamp": ("TIMESTAMP(3)", ["'2024-02-29 01:02:03.004'"]),
    "clock": ("TIME(3)", ["'-01:02:03.004'", "'838:59:59'"]),
    "day": ("DATE", ["'2024-02-29'"]),
    "bits": ("BIT(20)", ["0", "70000"]),
    "label": ("ENUM('x','y','é')", ["'x'", "'é'"]),
    "year": ("YEAR", ["1901", "2155"]),
}


@pytest.fixture(params=["mysql8", "mariadb"])
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, MySqlServer)
    return found


def test_keys_of_every_type(server: MySqlServer) -> None:
    """Each row is found by its key's text, by the index: alone, or as a part of a key of two columns."""
    source = Source(server.host, server.port, server.user, server.password)
    with server.database() as database:
        for name, (kind, values) in KEYS.items():
            keys_of = [(f"k_{name}", "k")] if name in ("ci", "double") else [(f"k_{name}", "w, k")]
            for table, key in keys_of:
                rows = ", ".join(f"({value}, '{number},', 1)" for number, value in enumerate(values))
                server.execute(
                    f"CREATE TABLE {table} (k {kind}, w VARCHAR(9), v INT, PRIMARY KEY ({key}))",
                    f"INSERT INTO {table} VALUES {rows}",
                    database=database,
                )
                with closing(connect(source)) as connection:
                    schema = definition(connection, database, table)
                    assert schema is not None
                    whole = pa.Table.from_batches(read_rows(connection, schema, "fail"))
                    (batch,) = whole.combine_chunks().to_batches()
                    keys = lake_text(batch, schema.primary_key).to_pylist()
                    (where,) = conditions(schema, keys)
                    found = rows_of_keys(read_rows(connection, schema, "fail", where), schema, keys)
                    assert sorted(found) == sorted(keys), table
                    assert len(set(keys)) == len(values)

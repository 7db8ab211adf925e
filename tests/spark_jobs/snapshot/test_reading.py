"""Chunks of a table, read from real servers: limits of memory and rate, large rows, and what goes wrong."""

from __future__ import annotations

import ssl
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pymysql
import pytest
from pymysql.constants import CLIENT

from cdc_core.config import InstanceConfig
from cdc_core.contract.status import SourceStatus
from cdc_core.errors import SchemaError, SluiceError, SourceError, SourceUnavailable
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.information_schema import definition
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.snapshot import reading
from spark_jobs.snapshot.limits import Limits
from spark_jobs.snapshot.reading import read_chunk, read_chunks
from spark_jobs.snapshot.resultset.statement import executed
from spark_jobs.snapshot.source import Source, captured_source, connect

pytestmark = pytest.mark.integration
_DIGITS = "(SELECT 0 d UNION ALL " + " UNION ALL ".join(f"SELECT {d}" for d in range(1, 10)) + ")"


@pytest.fixture(params=["mysql57", "mysql8", "mysql9", "mariadb"])
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, MySqlServer)
    return found


@pytest.fixture
def database(server: MySqlServer) -> Iterator[str]:
    with server.database() as name:
        yield name


def source(server: MySqlServer) -> Source:
    return Source(server.host, server.port, server.user, server.password)


def schema_of(server: MySqlServer, database: str, table: str = "t") -> TableSchema:
    with server.root() as connection:
        found = definition(connection, database, table)
    assert found is not None
    return found


def thousand(server: MySqlServer, database: str) -> TableSchema:
    """A table of 1,000 rows, whose ids begin at 0."""
    numbers = f"SELECT a.d + 10 * b.d + 100 * c.d n FROM {_DIGITS} a, {_DIGITS} b, {_DIGITS} c"
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000))",
        f"INSERT INTO t SELECT n, REPEAT('v', 900) FROM ({numbers}) s",
        database=database,
    )
    return schema_of(server, database)


def test_a_condition_chooses_rows(server: MySqlServer, database: str) -> None:
    """Of each chunk its own rows, of an empty one none, of "" all; whatever limit the server has for a SELECT."""
    schema = thousand(server, database)
    server.execute("SET GLOBAL sql_select_limit = 5")
    try:
        chunks = ["id < 400", "id >= 400 AND id < 400", "id >= 400"]
        rows = pa.Table.from_batches(read_chunks(source(server), schema, chunks))
        everything = pa.Table.from_batches(read_chunk(source(server), schema, ""))
    finally:
        server.execute("SET GLOBAL sql_select_limit = DEFAULT")
    assert sorted(rows["id"].to_pylist()) == sorted(everything["id"].to_pylist()) == list(range(1000))
    assert rows.schema == pa.schema(arrow_fields(schema))


def test_a_connection_reads_any_number_of_chunks(server: MySqlServer, database: str) -> None:
    """It keeps none of their statements, of which a server has a limited number."""
    schema = thousand(server, database)
    server.execute("SET GLOBAL max_prepared_stmt_count = 5")
    try:
        chunks = [f"id >= {low} AND id < {low + 50}" for low in range(0, 1000, 50)]
        rows = pa.Table.from_batches(read_chunks(source(server), schema, chunks))
    finally:
        server.execute("SET GLOBAL max_prepared_stmt_count = DEFAULT")
    assert rows["id"].to_pylist() == list(range(1000))


def test_memory_holds_one_batch(server: MySqlServer, database: str) -> None:
    """A batch has no more bytes than asked for, however many rows there are."""
    schema = thousand(server, database)
    batches = list(read_chunk(source(server), schema, "", limits=Limits(batch_bytes=1 << 16)))
    assert sum(batch.num_rows for batch in batches) == 1000
    assert max(batch.nbytes for batch in batches) <= 1 << 16
    tracemalloc.start()
    for batch in read_chunk(source(server), schema, "", limits=Limits(batch_bytes=1 << 16)):
        del batch
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_a_row_of_sixty_megabytes(server: MySqlServer, database: str) -> None:
    """Four packets, between small rows."""
    server.execute("SET GLOBAL max_allowed_packet = 128 << 20")
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a LONGBLOB) ENGINE = MyISAM",
        "INSERT INTO t VALUES (1, 'x'), (2, REPEAT('y', 60000000)), (3, 'z')",
        database=database,
    )
    rows = pa.Table.from_batches(read_chunk(source(server), schema_of(server, database), "")).sort_by("id")
    assert [len(value) for value in rows["a"].to_pylist()] == [1, 60_000_000, 1]
    assert rows["a"][1].as_py().count(b"y") == 60_000_000


def test_four_thousand_columns(server: MySqlServer, database: str) -> None:
    """NULLs among them. Older servers cannot store the definition of so many."""
    count = 4000 if server.version in ("8.0.31", "9") else 2000
    columns = ", ".join(f"c{at} TINYINT" for at in range(count))
    values = ", ".join(str(at % 100) if at % 7 else "NULL" for at in range(count))
    server.execute(f"CREATE TABLE t ({columns}) ENGINE = MyISAM", database=database)
    server.execute(f"INSERT INTO t VALUES ({values}), ({values})", database=database)
    (batch,) = read_chunk(source(server), schema_of(server, database), "")
    assert batch.to_pylist() == 2 * [{f"c{at}": at % 100 if at % 7 else None for at in range(count)}]


def test_a_result_without_eof_packets(server: MySqlServer, database: str) -> None:
    """What a connection with CLIENT_DEPRECATE_EOF gets; MariaDB before 10.2 and MySQL before 5.7.5 do not know it."""
    schema = thousand(server, database)
    account = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    one = f"SELECT id FROM {schema.database}.t WHERE id = 7"
    with (
        pymysql.connect(**account, client_flag=CLIENT.DEPRECATE_EOF) as connection,
        executed(connection, one, 1 << 16) as (answers, packets),
    ):
        assert len(answers) == 1
        assert packets.next()[-4:] == (7).to_bytes(4, "little")
        assert packets.next()[0] == 0xFE


def test_rows_over_tls(mysql8: MySqlServer) -> None:
    """Records of TLS are smaller than a batch."""
    with mysql8.database() as database:
        schema = thousand(mysql8, database)
        tls = {"verify_mode": ssl.CERT_NONE, "check_hostname": False}
        found = pa.Table.from_batches(read_chunk(replace(source(mysql8), ssl=tls), schema, ""))
    assert sorted(found["id"].to_pylist()) == list(range(1000))


def test_a_copy_uses_tls_as_the_service_does(mysql8: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default where the server has it, never with DISABLED. The system's certificates are read to verify alone."""
    read: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: read.append(1))
    status = SourceStatus(f"{mysql8.host}:{mysql8.port}", "8.0.31", None, True)
    fields = {"canal.instance.destination": "shop", "canal.instance.master.address": status.address}
    fields |= {"canal.instance.dbUsername": mysql8.user, "canal.instance.dbPassword": mysql8.password}
    for mode, encrypted in ("PREFERRED", True), ("REQUIRED", True), ("DISABLED", False):
        instance = InstanceConfig.model_validate(fields | {"canal.instance.master.sslMode": mode})
        with connect(captured_source(instance, status)) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
            assert bool((cursor.fetchone() or ("", ""))[1]) is encrypted
    assert not read
    verified = InstanceConfig.model_validate(fields | {"canal.instance.master.sslMode": "VERIFY_CA"})
    with pytest.raises(SourceUnavailable):
        connect(captured_source(verified, status))
    assert read


def test_a_query_that_is_killed_is_an_error(server: MySqlServer, database: str) -> None:
    """In the middle of the rows: the error names the table, the chunk and what to do. So does a killed connection."""
    schema = thousand(server, database)
    slow = "id < 500 AND SLEEP(0.01) = 0"
    for kill in ("KILL QUERY", "KILL"):
        batches = read_chunk(source(server), schema, slow, limits=Limits(batch_bytes=1 << 16))
        assert next(batches).num_rows < 500
        end(server, kill, slow)
        with pytest.raises(SourceError, match=f"{schema.name}, chunk id < 500") as caught:
            list(batches)
        assert "read the table again" in caught.value.hint
        assert isinstance(caught.value, SourceUnavailable) == (kill == "KILL")


def test_a_source_that_sends_nothing_is_an_error(
    server: MySqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs before the rows or among them: whoever keeps it busy, or the table locked, is named as the cause."""
    schema = thousand(server, database)
    monkeypatch.setattr(reading, "_STALLED", 2.0)
    with server.root(database) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        with pytest.raises(SourceUnavailable, match="timed out") as caught:
            list(read_chunk(source(server), schema, "id < 500"))
        cursor.execute("UNLOCK TABLES")
    assert "SHOW PROCESSLIST" in caught.value.hint
    assert f"{schema.name}, chunk id < 500" in str(caught.value)
    with pytest.raises(SourceUnavailable, match=r"sent nothing for 2 seconds") as caught:
        list(read_chunk(source(server), schema, "id < 500 OR SLEEP(60) = 0", limits=Limits(batch_bytes=1 << 16)))
    assert "SHOW PROCESSLIST" in caught.value.hint
    end(server, "KILL", "SLEEP(60)")  # else the database cannot be dropped before the server misses its client


def end(server: MySqlServer, kill: str, text: str) -> None:
    with server.root() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, info FROM information_schema.processlist WHERE info LIKE '%%SLEEP(%%'")
        (number,) = (number for number, info in cursor.fetchall() if text in info and "processlist" not in info)
        cursor.execute(f"{kill} {number}")


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("ALTER TABLE t DROP COLUMN v", SourceError),
        ("ALTER TABLE t MODIFY v TEXT CHARACTER SET latin1", SchemaError),
        ("ALTER TABLE t MODIFY id BIGINT UNSIGNED", SchemaError),
        ("DROP TABLE t", SourceError),
    ],
)
def test_a_table_that_was_altered_is_refused(mysql8: MySqlServer, statement: str, error: type[SluiceError]) -> None:
    """It is never read by a definition that it no longer has."""
    with mysql8.database() as database:
        schema = thousand(mysql8, database)
        mysql8.execute(statement, database=database)
        with pytest.raises(error, match=r"\.t"):
            list(read_chunk(source(mysql8), schema, ""))


def test_an_account_without_the_privilege(mysql8: MySqlServer) -> None:
    """The statement that grants it is reported, and no password."""
    with mysql8.database() as database:
        schema = thousand(mysql8, database)
        mysql8.execute("CREATE USER unprivileged IDENTIFIED WITH mysql_native_password BY 'geheim-43'")
        try:
            with pytest.raises(SourceError, match="denied") as caught:
                list(read_chunk(Source(mysql8.host, mysql8.port, "unprivileged", "geheim-43"), schema, ""))
        finally:
            mysql8.execute("DROP USER unprivileged")
    assert "GRANT SELECT" in caught.value.hint
    assert "geheim-43" not in str(caught.value)


def test_the_rate_is_kept(mysql8: MySqlServer) -> None:
    """Batches have no more than a second's rows, and wait for their turn, over all chunks."""
    with mysql8.database() as database:
        schema = thousand(mysql8, database)
        began = time.monotonic()
        chunks = ["id < 500", "id >= 500"]
        batches = list(read_chunks(source(mysql8), schema, chunks, limits=Limits(rows_per_second=400)))
        took = time.monotonic() - began
    assert sum(batch.num_rows for batch in batches) == 1000
    assert max(batch.num_rows for batch in batches) <= 400
    assert took >= 2.5


@pytest.mark.parametrize("name", ["mysql8", "mysql57", "mariadb"])
def test_a_limit_of_the_server_ends_no_statement(name: str, request: pytest.FixtureRequest) -> None:
    """`max_execution_time` and MariaDB's `max_statement_time` are not meant for a statement that reads a table."""
    mysql: MySqlServer = request.getfixturevalue(name)
    limit, short = ("max_statement_time", "0.001") if name == "mariadb" else ("max_execution_time", "1")
    with mysql.database() as database, mysql.root(database) as root, root.cursor() as cursor:
        schema = thousand(mysql, database)
        cursor.execute(f"SET GLOBAL {limit} = {short}")
        try:
            with connect(source(mysql)) as connection, connection.cursor() as asking:
                asking.execute(f"SELECT @@SESSION.{limit}, SLEEP(0.1)")
                assert asking.fetchone() == (0, 0)
            assert sum(batch.num_rows for batch in read_chunk(source(mysql), schema, "")) == 1000
        finally:
            cursor.execute(f"SET GLOBAL {limit} = 0")


def test_a_connection_is_closed_whatever_happens(mysql8: MySqlServer) -> None:
    """Also where the reader stops in the middle."""
    with mysql8.database() as database:
        schema = thousand(mysql8, database)
        batches = read_chunk(source(mysql8), schema, "", limits=Limits(batch_bytes=1 << 16))
        next(batches)
        batches.close()
        with connect(source(mysql8)) as connection, connection.cursor() as cursor:
            asked = "SELECT count(*) FROM information_schema.processlist WHERE info LIKE %s"
            deadline, others = time.monotonic() + 60, 1
            while others:  # a server takes a moment to end the statement
                assert time.monotonic() < deadline
                cursor.execute(asked, (f"%{database}%",))
                row = cursor.fetchone()
                assert row is not None
                others = row[0] - 1

"""spark_jobs.source and spark_jobs.session on a real Spark server, and the secrets that they keep."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from cdc_core.client.changes import RowsDoor
from cdc_core.doors.certificate import Certificate, CertificateFiles
from cdc_core.doors.flight import FlightDoor
from cdc_core.errors import LakeError
from spark_jobs.session import Sessions, connect, disconnect
from spark_jobs.write.view import create_view
from tests.support.certificates import Authority
from tests.support.door_double import TABLE as TABLE_OF_SHOP
from tests.support.door_double import Destination, Server, opened
from tests.support.flight_calls import flight_info
from tests.support.spark_feed import Change, Feed, Table, feed

pytestmark = pytest.mark.integration
TABLE = Table("t", pa.schema({"id": pa.int64(), "v": pa.string()}), key=("id",))


@pytest.fixture
def service() -> Iterator[Feed]:
    with feed() as server:
        server.put(TABLE, [Change(n, None, (n, "v")) for n in range(1, 101)])
        server.claim(1, 0, 100)
        yield server


def test_the_service_is_asked_when_no_tickets_are_given(service: Feed, spark_remote: str) -> None:
    """Options are enough: schema, splits and rows come from the service; `after` leaves rows out."""
    spark = connect(spark_remote)
    options = {"url": service.url, "destination": "d", "client_id": "1", "batch_id": "1", "table": "shop.t"}
    frame = spark.read.format("sluice").options(**options, splits="3").load()
    assert frame.columns == ["id", "v", "_sluice_op"]
    assert frame.count() == 100
    assert sorted(row.id for row in frame.where("id > 98").collect()) == [99, 100]
    disconnect(spark)


def test_the_token_is_in_no_plan_and_no_error(service: Feed, spark_remote: str) -> None:
    """Neither explain nor a failed read shows it."""
    spark = connect(spark_remote)
    reader = spark.read.format("sluice").schema("id bigint").option("url", "grpc://127.0.0.1:9")
    frame = reader.option("tickets", "eA==").option("token", "geheim-42").load()
    assert "geheim-42" not in frame._explain_string(extended=True)
    with pytest.raises(Exception, match="does not answer") as caught:
        frame.collect()
    assert "geheim-42" not in str(caught.value)
    disconnect(spark)


def test_a_session_is_used_again_and_an_ended_one_is_not(spark_remote: str) -> None:
    """The pool keeps what works, replaces what the server forgot, and drops what failed."""
    with Sessions(spark_remote) as pool:
        with pool.take() as first:
            pass
        with pool.take() as second:
            assert second is first
        first.stop()
        with pool.take() as third:
            assert third.sql("SELECT 1").collect()[0][0] == 1
        with pytest.raises(ZeroDivisionError), pool.take() as fourth:
            raise ZeroDivisionError
        with pool.take() as fifth:
            assert fifth is not fourth


def test_a_server_says_how_many_tasks_it_runs_at_a_time(spark_remote: str) -> None:
    """A local Spark has the machine's cores."""
    with Sessions(spark_remote) as sessions:
        assert sessions.cores() == os.cpu_count()


def test_a_missing_server_is_an_error_within_seconds() -> None:
    """After seconds, not after the ten minutes of Spark."""
    began = time.monotonic()
    with pytest.raises(LakeError, match="does not answer") as caught:
        connect("sc://127.0.0.1:9")
    assert caught.value.place == "sc://127.0.0.1:9"
    assert time.monotonic() - began < 300


def test_workers_pull_through_tls(spark_remote: str, tmp_path: Path) -> None:
    """With the token and the authority in the plan's options, by tickets and without; with another authority not."""
    authority, shop = Authority(tmp_path), Destination()
    authority.issue()
    shop.put(500)
    claim = shop.claim(1001, 1000, 0, "run-1", 60)
    assert claim is not None
    certificate = Certificate(CertificateFiles(authority.certificate, authority.key))
    door = FlightDoor(Server(shop), "127.0.0.1", 0, "s3cret", certificate=certificate)  # type: ignore[arg-type]
    with opened(door), Sessions(spark_remote) as pool, pool.take() as spark:
        read = flight_info(door.url, claim, TABLE_OF_SHOP, splits=2, token="s3cret", ca=authority.pem)
        for sent_rows in (0, 1000):
            create_view(spark, read, "pulled", RowsDoor(door.url, "s3cret", authority.pem), sent_rows)
            assert spark.sql("SELECT count(*), count(DISTINCT id) FROM pulled").collect()[0] == (500, 500)
        options = {"url": door.url, "token": "s3cret", "destination": "shop", "client_id": "1001"}
        asked = spark.read.format("sluice").options(**options, batch_id=str(claim.batch_id), table=TABLE_OF_SHOP)
        assert asked.option("ca", authority.pem).load().count() == 500
        create_view(spark, read, "pulled", RowsDoor(door.url, "s3cret", Authority(tmp_path, "other").pem), 0)
        with pytest.raises(Exception, match="does not answer"):
            spark.sql("SELECT count(*) FROM pulled").collect()

"""spark_jobs.source and spark_jobs.session on a real Spark server, and the secrets that they keep."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from cdc_core.errors import LakeError
from spark_jobs.session import Sessions, connect, disconnect
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


def test_a_missing_server_is_an_error_within_seconds() -> None:
    """After seconds, not after the ten minutes of Spark."""
    began = time.monotonic()
    with pytest.raises(LakeError, match="does not answer") as caught:
        connect("sc://127.0.0.1:9")
    assert caught.value.place == "sc://127.0.0.1:9"
    assert time.monotonic() - began < 300

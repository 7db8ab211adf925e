"""A lake in an S3 server, written by Spark over S3A and by delta-rs in turn and at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from spark_jobs.session import Sessions
from spark_jobs.stores import check_spark
from tests.support.s3a import s3a_spark

pytestmark = pytest.mark.integration
EACH = 12  # commits of each writer


@pytest.fixture
def spark(object_store: str, tmp_path: Path) -> Iterator[SparkSession]:
    with s3a_spark(tmp_path) as remote, Sessions(remote) as sessions, sessions.take() as session:
        yield session


@pytest.mark.in_turn
@pytest.mark.full
def test_writers_that_race_lose_no_commit(spark: SparkSession, object_store: str) -> None:
    """Every row of three writers is there once: two are delta-rs', one is Spark's."""
    path = f"{object_store}/race/t"
    check_spark(path, lambda key, default: spark.conf.get(key, default) or default)
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING) USING delta").collect()

    def appends(first: int) -> None:
        for number in range(first, first + EACH):
            noted = CommitProperties(app_transactions=[Transaction(f"writer-{first}", number)])
            rows = pa.table({"id": pa.array([number], pa.int64()), "v": ["delta-rs"]})
            write_deltalake(path, rows, mode="append", commit_properties=noted)

    def inserts(first: int) -> None:
        for number in range(first, first + EACH):
            spark.sql(f"INSERT INTO delta.`{path}` VALUES ({number}, 'spark')").collect()

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(appends, 0), pool.submit(appends, 100), pool.submit(inserts, 200)]
        assert [one.result(300) for one in running] == [None] * 3
    expected = [first + number for first in (0, 100, 200) for number in range(EACH)]
    found = sorted(row.id for row in spark.sql(f"SELECT id FROM delta.`{path}`").collect())
    assert found == expected
    table = DeltaTable(path)
    assert table.version() == 3 * EACH
    assert [table.transaction_version(f"writer-{first}") for first in (0, 100)] == [EACH - 1, 100 + EACH - 1]


def test_a_spark_without_the_flag_is_refused() -> None:
    """It would take the place of a commit that came in between."""
    with pytest.raises(LakeError, match="conditional PUTs"):
        check_spark("s3a://lake", lambda _key, default: default)

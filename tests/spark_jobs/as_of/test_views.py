"""spark_jobs.as_of: views in Spark, of tables that are merged and that land first."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from spark_jobs.as_of.as_of import as_of
from spark_jobs.as_of.views import as_of_view, make_views
from spark_jobs.session import Sessions
from tests.support.lake_history import LakeHistory, Rows

pytestmark = pytest.mark.integration


@pytest.fixture
def lake(tmp_path: Path) -> LakeHistory:
    """Tables of a database of this test's own: Spark is shared."""
    name = f"as_of_{random.Random().randrange(1 << 40)}"
    return LakeHistory(tmp_path, random.Random(4), [f"{name}.a", f"{name}.b"], [f"{name}.l"])


def shown(sessions: Sessions, lake: LakeHistory, table: str) -> Rows:
    with sessions.take() as spark:
        rows = spark.sql(f"SELECT id, v FROM {as_of_view(lake.follows, table)}").collect()
    assert len(rows) == len({row[0] for row in rows})
    return {row[0]: row[1] for row in rows}


@pytest.mark.in_turn
def test_views_show_the_rows_of_one_transaction(lake: LakeHistory, sessions: Sessions) -> None:
    """At each place, whatever comes later; a table that lands first before and after its merges."""
    for number in range(6):
        lake.commit(*lake.tables)
        lake.commit(lake.tables[number % 3])
        lake.batch_of(2)
        if number == 3:
            lake.merge(lake.landed[0])
    for index in (1, 5, 7, 9, 11):
        found = as_of(lake.follows, str(lake.server.position(index)))
        with sessions.take() as spark:
            make_views(spark, lake.follows, found)
        for table in lake.tables:
            assert shown(sessions, lake, table) == lake.rows_at(table, index), (index, table)


def test_a_log_alone_begins_after_what_emptied_it(lake: LakeHistory, sessions: Sessions) -> None:
    """Of a table that was never merged."""
    landed = lake.landed[0]
    for _ in range(3):
        lake.commit(landed)
        lake.batch_of(1)
    found = as_of(lake.follows, "latest", [landed])
    assert found.tables[landed].version is None
    with sessions.take() as spark:
        make_views(spark, lake.follows, found)
    assert shown(sessions, lake, landed) == lake.rows_at(landed, 2)


def test_the_view_of_an_absent_table_is_dropped(lake: LakeHistory, sessions: Sessions) -> None:
    """It would be of another place."""
    dropped = lake.tables[1]
    lake.commit(*lake.tables)
    lake.batch_of(1)
    with sessions.take() as spark:
        make_views(spark, lake.follows, as_of(lake.follows, "latest"))
    assert shown(sessions, lake, dropped) == lake.rows_at(dropped, 0)
    lake.statement("drop", dropped)
    lake.batch_of(1)
    with sessions.take() as spark:
        make_views(spark, lake.follows, as_of(lake.follows, "latest"))
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        shown(sessions, lake, dropped)

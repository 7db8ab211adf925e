"""The check `schema_change` over real statements: by MySQL, the service, Spark and Dagster, each as it is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from orchestration.assets.schema_changes import SCHEMA_CHANGE
from orchestration.names import Names
from orchestration.stack.mysql.server import MySqlServer
from tests.support.operated import Operated, operated, until

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(900)]

_STATEMENTS: dict[str, dict[str, list[str]]] = {  # what each changes
    "ADD memo TEXT, ADD n INT": {"added": ["memo", "n"]},
    "MODIFY n BIGINT": {"changed": ["n (int to bigint)"]},
    "RENAME COLUMN memo TO remark": {"added": ["remark"], "removed": ["memo"]},
    "DROP COLUMN n": {"removed": ["n"]},
}


def _latest(shop: Operated, table: str) -> dg.AssetCheckEvaluation | None:
    key = dg.AssetCheckKey(Names("shop").delta(f"{shop.database}.{table}"), SCHEMA_CHANGE)
    found = shop.instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
    event = found.event.dagster_event if found and found.event else None
    return event.asset_check_evaluation_data if event else None


def _metadata(one: dg.AssetCheckEvaluation) -> dict[str, Any]:
    return {name: value.value for name, value in one.metadata.items()}


@pytest.mark.in_turn
def test_each_statement_warns_until_rows_come(mysql8: MySqlServer, spark_remote: str, tmp_path: Path) -> None:
    """ADD, MODIFY, RENAME and DROP of columns are named with their statement, and a statement without columns is not.
    The rows of a later run end the warning; the other table has none."""
    with operated(mysql8, spark_remote, tmp_path, "changed", "other", schema_change="warn") as shop:
        shop.sql("INSERT INTO changed VALUES (1, 'a')", "INSERT INTO other VALUES (1, 'a')")
        until("the rows are there", lambda: shop.differences("changed", "other") == [])
        for number, (clause, wanted) in enumerate(_STATEMENTS.items()):
            statement = f"ALTER TABLE changed {clause}"
            shop.sql(statement, f"INSERT INTO changed (id) VALUES ({10 + number})")
            until(f"{clause} warns", lambda: (one := _latest(shop, "changed")) and not one.passed)
            told = _latest(shop, "changed")
            assert told is not None
            assert told.severity is dg.AssetCheckSeverity.WARN
            assert _metadata(told) == {"added": [], "removed": [], "changed": [], "statements": [statement]} | wanted
            _rests(shop)
            shop.sql(f"INSERT INTO changed (id) VALUES ({20 + number})")
            until("rows end it", lambda: (one := _latest(shop, "changed")) and one.passed)
        shop.sql("ALTER TABLE changed ADD INDEX (note), COMMENT 'notes'", "INSERT INTO changed (id) VALUES (30)")
        assert shop.differences("changed", "other") == []
        passed = [_latest(shop, table) for table in ("changed", "other")]
        assert all(one is None or one.passed for one in passed)


def _rests(shop: Operated) -> None:
    """Waits until no run goes on, so that rows come with the next one."""
    going = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING])
    until("the run has ended", lambda: not shop.instance.get_run_records(going))

"""Values that rules hide do not leave the service: by MySQL, the service, Spark and Dagster, each as it is shipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError

from orchestration.commands import explain
from orchestration.commands.verb import access_of, run
from orchestration.jobs.by_hand import job_of, run_config
from orchestration.names import Names
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Settings
from orchestration.stack.mysql.server import MySqlServer
from orchestration.verbs.orders import Redo, Replay, Undo, Verify
from spark_jobs.lake.corrections import Corrections
from spark_jobs.lake.ledger import Ledger
from spark_jobs.past.asked import AskedPast
from tests.support.hidden_values import files_with
from tests.support.operated import Operated, operated, until

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(1500)]
_SALT, _PEPPER = "HIDDEN_SALT", "pepper of the salt"
_HIDDEN = ("hunter2", "@example.com", "tel. 1", _PEPPER)
_SEEN: dict[str, Any] = {
    "exclude": ["password"],
    "mask": {"email": "sha256", "phone": {"keep_last": 2}, "memo": "null"},
}
_RULES: dict[str, Any] = {
    "salt": {"env": _SALT},
    "tables": {
        "*.people": _SEEN,
        "*.kept": {"mask": {"note": "sha256"}},
        "*.broken": {"exclude": ["password"], "types": {"bigint_unsigned": "bigint"}},
        "*.partly": {"where": "state = 1"},
        "*.letters": _SEEN,
    },
}
_EXPECTED = {
    "*.letters": [
        {"regex": {"email": "@"}, "severity": "quarantine"},
        {"unique": "phone"},
        {"sql": "SELECT id FROM changes WHERE CAST(email AS INT) > 0", "name": "fails_by_a_value"},
    ]
}
_COLUMNS = "(id INT PRIMARY KEY, password VARCHAR(40), email VARCHAR(60), phone VARCHAR(20), plain VARCHAR(20))"


def _people(low: int) -> str:
    rows = (f"({n}, 'hunter2-{n}', 'a{n}@example.com', 'tel. 1{n:04d}', 'plain {n}')" for n in range(low, low + 20))
    return f"INSERT INTO people (id, password, email, phone, plain) VALUES {', '.join(rows)}"


def _row_counts(shop: Operated, path: Callable[[str, str], str], table: str) -> int:
    """0 for a table that is not there yet."""
    try:
        there = DeltaTable(path(shop.database, table))
    except TableNotFoundError:
        return 0
    return int(pa.table(QueryBuilder().register("t", there).execute("SELECT * FROM t").read_all()).num_rows)


def _failing(shop: Operated, table: str) -> set[str]:
    """Returns the checks of a table that failed last."""
    key = Names("shop").delta(f"{shop.database}.{table}")
    names = ("regex_email", "unique_phone", "fails_by_a_value")
    found = shop.instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [dg.AssetCheckKey(key, name) for name in names]
    )
    events = {one.name: record.event.dagster_event for one, record in found.items() if record.event}
    return {name for name, one in events.items() if one and not one.asset_check_evaluation_data.passed}


def _answers(shop: Operated) -> list[str]:
    """What the service's pages say, the definitions of tables aside."""
    home = "/v1/destinations/shop"
    client = f"{home}/clients/{shop.connector.client_id}"
    pages = (home, client, f"{client}/rules", f"{home}/positions", "/metrics", "/v1/destinations", "/")
    return [httpx.get(shop.service + page, trust_env=False).text for page in pages]


def _corrected(shop: Operated, folder: Path, remote: str, batch: str) -> None:
    """Explains and undoes a batch of people, by commands and by Dagster's job, and takes the undo back."""
    people, conf = f"{shop.database}.people", folder / "conf"
    at = access_of("shop", lake=str(shop.lake.root), conf=conf, spark=remote, service=shop.service)
    for binlog in (True, False):
        for as_json in (True, False):
            assert explain.run(at, (), AskedPast(batch), 100, binlog=binlog, as_json=as_json) == 0
    for order in (Undo(batch=batch, tables=[people]), Replay(batch=batch, tables=[people])):
        assert run(order, at, as_json=False) == 0
    settings = Settings(destination="shop", lake=str(shop.lake.root), conf=str(conf))
    job = job_of(Undo, settings)
    given = run_config(job.name, batch=batch, tables=[people], dry_run=False, reason="hidden values stay hidden")
    resources = {
        "canal_shop": CanalResource(destination="shop", http_url=shop.service),
        "lake_shop": LakeResource(root=str(shop.lake.root), remote=remote, conf=str(conf)),
    }
    assert job.execute_in_process(given, instance=shop.instance, resources=resources, raise_on_error=False).success
    (number,) = {
        one.correction.number for one in Corrections(shop.lake, "shop", 1001).tables() if one.counts.get("put")
    }
    assert run(Verify(tables=[people], repair=True), at, as_json=True) == 0
    assert run(Redo(number=number, dry_run=False), at, as_json=True, reason="hidden values stay hidden") == 0


def _last_batch(shop: Operated) -> str:
    noted = Ledger(shop.lake, "shop", 1001).opened()
    assert noted is not None
    found = pa.table(noted.to_pyarrow_table(columns=["batch_id", "tables"])).to_pylist()
    return str(max(row["batch_id"] for row in found if f"{shop.database}.people" in row["tables"]))


@pytest.mark.in_turn
def test_no_part_but_the_service_has_a_hidden_value(
    mysql8: MySqlServer,
    spark_remote: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither files of the lake with its logs and histories, nor Dagster's storage and logs, nor the service's log and
    answers: by rows, statements with values, a copy, a row that stops its table, rows that fail what is expected, and
    a batch that is explained, undone and redone."""
    monkeypatch.setenv(_SALT, _PEPPER)
    modes = {"mode": "merge", "tables": {"*.kept": "history"}}
    with operated(mysql8, spark_remote, tmp_path, "kept", rules=_RULES, apply=modes, expectations=_EXPECTED) as shop:
        shop.sql(
            f"CREATE TABLE people {_COLUMNS}",
            "CREATE TABLE broken (id INT PRIMARY KEY, password VARCHAR(40), n BIGINT UNSIGNED)",
            "CREATE TABLE partly (id INT PRIMARY KEY, city VARCHAR(40), state INT)",
            f"CREATE TABLE letters {_COLUMNS}",
            _people(0),
            "INSERT INTO letters SELECT * FROM people WHERE id < 3",
            "INSERT INTO kept VALUES (1, 'hunter2-k'), (2, 'hunter2-l'), (3, 'x@example.com')",
            "INSERT INTO broken VALUES (1, 'hunter2-b', 5)",
            "INSERT INTO partly VALUES (1, 'hunter2', 0), (2, 'Ulm', 1)",
        )
        shop.sql(
            "UPDATE people SET email = 'new@example.com', password = 'hunter2-new' WHERE id < 5",
            "UPDATE kept SET note = 'hunter2-m' WHERE id = 1",
            "DELETE FROM kept WHERE id = 2",
            "DELETE FROM people WHERE password = 'hunter2-7'",
            "ALTER TABLE people ADD memo VARCHAR(40) DEFAULT 'hunter2-memo', "
            "MODIFY password VARCHAR(50) DEFAULT 'hunter2-d', MODIFY email VARCHAR(300)",
            _people(100),
            "UPDATE partly SET city = 'hunter2', state = 2 WHERE id = 2",
            "INSERT INTO broken VALUES (2, 'hunter2-c', 18446744073709551615)",
        )
        until("broken has stopped", lambda: [one.table for one in shop.connector.client_status().stopped])
        until("the history is kept", lambda: _row_counts(shop, shop.lake.history_path, "kept") >= 4)
        until("people are copied", lambda: _row_counts(shop, shop.lake.path, "people") == 39)
        until("letters wait", lambda: _row_counts(shop, shop.lake.quarantine_path, "letters") == 3)
        until("it is told", lambda: _failing(shop, "letters") == {"regex_email", "fails_by_a_value"})
        assert [one.table for one in shop.connector.client_status().stopped] == [f"{shop.database}.broken"]
        assert _row_counts(shop, shop.lake.path, "partly") == 0
        shop.sql(
            "BEGIN",
            "UPDATE people SET email = 'later@example.com', password = 'hunter2-later', plain = 'p' WHERE id < 103",
            "DELETE FROM people WHERE id IN (110, 111)",
            "INSERT INTO people VALUES (200, 'hunter2-z', 'z@example.com', 'tel. 19999', 'plain', 'hunter2-memo')",
            "COMMIT",
        )
        until("people are changed", lambda: _row_counts(shop, shop.lake.path, "people") == 38)
        until("it is acked", lambda: not shop.connector.client_status().waiting)
        capfd.readouterr()
        _corrected(shop, tmp_path, spark_remote, _last_batch(shop))
        told = capfd.readouterr()
        assert _row_counts(shop, shop.lake.path, "people") == 38
        answers = [*_answers(shop), told.out, told.err]

    assert "plain: p -> plain 3" in told.out
    assert [(one, answer) for answer in answers for one in _HIDDEN if one in answer] == []
    assert files_with(tmp_path / "lake", ["plain 3"])  # which is not hidden
    assert files_with(tmp_path, _HIDDEN, leave_out=[tmp_path / "conf"]) == []

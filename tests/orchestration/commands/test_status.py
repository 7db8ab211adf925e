"""What `sluice status` says of tables: those that are stopped, and the rows that wait in quarantines."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from cdc_core.contract.status import Status
from cdc_core.contract.stopped_table import StoppedTable
from orchestration.commands import status
from spark_jobs.expectations.column_tests import Bounded
from spark_jobs.expectations.expectation import Expectation, Expectations, Severity
from spark_jobs.lake.tables import Lake
from tests.support.applying import apply_batch
from tests.support.canal_double import MemoryCanal, position
from tests.support.local_job import NO_SPARK, run_job_here
from tests.support.spark_feed import Change, Table, feed

FIELDS = pa.schema({"id": pa.int64(), "n": pa.int32()})
EXPECTED = Expectations({"shop.*": (Expectation("small", Bounded(0, 9), ("n",), Severity.QUARANTINE),)})


def test_rows_that_wait_are_counted_by_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do about them; a table whose quarantine is empty is not named, nor any without the lake."""
    run_job_here(monkeypatch)
    with feed() as service:
        for name, n in (("orders", 50), ("users", 5)):
            rows = [Change(at, None, (at, n)) for at in (1, 2)]
            service.put(Table(name, FIELDS, key=("id",)), rows)
        apply_batch(service.claim(1, 0, 2), Lake(tmp_path), NO_SPARK, service.url, expectations=EXPECTED)
    one = SimpleNamespace(
        destination="d",
        error=None,
        clients=[SimpleNamespace(client_id=1, epoch=1)],
        to_dict=lambda: {"destination": "d"},
    )
    monkeypatch.setattr(status, "statuses", lambda *_: [one])
    monkeypatch.setattr(status, "show", lambda _: None)
    monkeypatch.setattr(status, "reported", lambda _: {})
    assert status.run("http://x", "", as_json=True, lake=str(tmp_path)) == 0
    assert json.loads(capsys.readouterr().out) == [{"destination": "d", "quarantined": {"shop.orders": 2}}]
    status.run("http://x", "", as_json=False, lake=str(tmp_path))
    assert capsys.readouterr().out == (
        "shop.orders: 2 rows wait in its quarantine (sluice requeue|drop d shop.orders)\n"
    )
    status.run("http://x", "", as_json=True)
    assert json.loads(capsys.readouterr().out) == [{"destination": "d"}]


def test_stopped_tables_are_shown_with_their_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A blocked one is told from one that an error stopped; of very many the first are shown."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(status, "MOST", 2)
    canal, remedy = MemoryCanal(), "Run `sluice accept DESTINATION shop.users`."
    canal.stopped = [
        StoppedTable("shop.orders", "its key was dropped", "Copy it.", position(1)),
        StoppedTable("shop.users", "2 rows fail small", remedy, position(1), kind="blocked"),
        StoppedTable("shop.more", "paused", "Resume it.", position(1)),
    ]
    status.show([Status("shop", "running", clients=(canal.client_status(),))])
    lines = capsys.readouterr().out.splitlines()
    assert "shop.orders is stopped: its key was dropped. Copy it." in lines
    assert "shop.users is blocked: 2 rows fail small. Run `sluice accept shop shop.users`." in lines
    assert "1 more tables of shop are stopped" in lines


def test_the_last_minute_has_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As the service sent it; a service of before, or a destination that does not run, has none."""
    monkeypatch.setenv("COLUMNS", "200")
    found = Status.from_dict(Status("shop", "running", stages={"quiet": 30.0, "apply": 29.96, "ack": 0.0}).to_dict())
    status.show([found, Status("other", "standby")])
    lines = [line for line in capsys.readouterr().out.splitlines() if "minute" in line]
    assert lines == ["shop, seconds of the last minute: quiet 30.0 s, apply 30.0 s"]
    fields = {name: value for name, value in found.to_dict().items() if name != "stages"}
    assert Status.from_dict(fields).stages == {}


def test_a_table_whose_log_is_blocked_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """As one that the service has stopped, with the remedy."""
    canal = MemoryCanal()
    canal.report_blocked([StoppedTable("shop.users", "2 rows fail", "sluice accept DESTINATION shop.users", None)])
    found = Status.from_dict(Status("shop", "running", clients=(canal.client_status(),)).to_dict())
    status.show([found])
    assert "shop.users is blocked: 2 rows fail. sluice accept shop shop.users" in capsys.readouterr().out.splitlines()


def test_rows_that_wait_are_shown_without_the_lake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the service knows them by the reports of the runs."""
    canal = MemoryCanal()
    canal.report_quarantined({"shop.users": 1234, "shop.orders": 2})
    one = Status("shop", "running", clients=(canal.client_status(),))
    monkeypatch.setattr(status, "statuses", lambda *_: [one])
    assert status.run("http://x", "", as_json=False) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "shop.orders: 2 rows wait in its quarantine (sluice requeue|drop shop shop.orders)",
        "shop.users: 1,234 rows wait in its quarantine (sluice requeue|drop shop shop.users)",
    ]
    status.run("http://x", "", as_json=True)
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["clients"][0]["quarantined"] == {"shop.orders": 2, "shop.users": 1234}

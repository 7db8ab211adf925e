"""Tests of orchestration.stack.instance: the files of a Dagster that others start."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import yaml

from orchestration.stack import instance


def test_a_new_instance_has_its_tables_before_a_process_starts(tmp_path: Path) -> None:
    """Three processes that start side by side on a new folder would each create them, and one would fail."""
    home = tmp_path / "home"
    instance.main(home, 4000)

    tables: set[str] = set()
    for path in [*home.glob("records/*.db"), *home.glob("ticks/*.db")]:
        with sqlite3.connect(path) as connection:
            tables |= {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"runs", "event_logs", "jobs"} <= tables
    server = {"host": "127.0.0.1", "port": 4000, "location_name": "sluice"}
    assert yaml.safe_load((home / "workspace.yaml").read_text()) == {"load_from": [{"grpc_server": server}]}


def test_the_settings_of_an_operator_are_left_as_they_are(tmp_path: Path) -> None:
    """A dagster.yaml that is there may name another storage; the code server's port is written all the same."""
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: true}\n")
    instance.main(tmp_path, 4001)

    assert (tmp_path / "dagster.yaml").read_text() == "telemetry: {enabled: true}\n"
    assert "4001" in (tmp_path / "workspace.yaml").read_text()
    assert not (tmp_path / "records").exists()

"""The files of a Dagster instance: `dagster.yaml`, and a `workspace.yaml` that names one code server on this machine.

`python -m orchestration.stack.instance HOME PORT` writes them for a Dagster that others start. A `dagster.yaml` that is
there is left as it is then: it may name another storage.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import yaml

from orchestration.stack.artifacts import locked
from orchestration.stack.home import PROJECT

LOCATION = "sluice"
_SETTINGS = PROJECT / "orchestration" / "dagster.yaml"


def write_instance(home: Path) -> None:
    """Writes `dagster.yaml` anew."""
    settings = yaml.safe_load(_SETTINGS.read_text()) | _storages(home)
    _write(home / "dagster.yaml", settings)


def write_workspace(home: Path, port: int) -> Path:
    """Returns the path of a `workspace.yaml` with the code server at a port."""
    server = {"host": "127.0.0.1", "port": port, "location_name": LOCATION}
    _write(path := home / "workspace.yaml", {"load_from": [{"grpc_server": server}]})
    return path


def _write(path: Path, value: dict[str, Any]) -> None:
    """Replaces a file at once: another process may read it."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(yaml.safe_dump(value, sort_keys=False))
    scratch.rename(path)


def _storages(home: Path) -> dict[str, Any]:
    """The storages of runs, events and ticks. Dagster's default has a file for each run, of 110 KB without any event,
    and each event of an asset twice."""
    kinds = {
        "run_storage": ("runs", "SqliteRunStorage", "records"),
        "event_log_storage": ("event_log", "ConsolidatedSqliteEventLogStorage", "records"),
        "schedule_storage": ("schedules", "SqliteScheduleStorage", "ticks"),
    }
    return {
        kind: {"module": f"dagster._core.storage.{room}", "class": name, "config": {"base_dir": str(home / folder)}}
        for kind, (room, name, folder) in kinds.items()
    }


def main(home: Path, port: int) -> None:
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / "instance"):
        if not (home / "dagster.yaml").exists():
            write_instance(home)
            _make_storages(home)
    write_workspace(home, port)


def _make_storages(home: Path) -> None:
    """Creates the tables of a new instance: processes that start side by side would each try to."""
    from dagster import DagsterInstance

    with DagsterInstance.from_config(str(home)) as instance:
        assert instance.run_storage
        assert instance.event_log_storage
        assert instance.schedule_storage


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""Snapshots, copies and comparisons take the source's password from its command, as the service does."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pymysql
import pytest

from cdc_core.config import InstanceConfig
from cdc_core.contract.status import SourceStatus
from cdc_core.errors import SourceUnavailable
from spark_jobs.snapshot import source as sources


def test_each_connection_has_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an executor too, to which the source travels pickled. It is a token, and asked for again when refused."""
    file, options = tmp_path / "password", list[dict[str, Any]]()
    file.write_text("first\n")
    config = InstanceConfig.model_validate(
        {"canal.instance.destination": "shop", "sluice.source.password.command": f"/bin/cat '{file}'"}
    )
    found = sources.captured_source(config, SourceStatus("db:3307", server_id=7))
    assert "password" not in repr(found.password_command)

    def refuse(**given: Any) -> None:
        options.append(given)
        raise pymysql.err.OperationalError(1045, "Access denied")

    monkeypatch.setattr(sources, "GuardedConnection", refuse)
    for text in ("first", "second"):
        file.write_text(f"{text}\n")
        with pytest.raises(SourceUnavailable, match="Access denied"):
            sources.connect(pickle.loads(pickle.dumps(found)))
    assert [one["password"] for one in options] == ["first", "second"]
    assert {(one["host"], one["port"], one["is_token"]) for one in options} == {("db", 3307, True)}

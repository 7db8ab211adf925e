"""The job that reloads a table from its change log, without Spark: what it refuses and reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestration.cli import app
from orchestration.verbs import remake
from orchestration.verbs.orders import Remake
from orchestration.verbs.remake import begin_of
from spark_jobs.following.pending import Follows
from spark_jobs.lake.tables import Lake
from tests.support.jobs import executed


def run(tmp_path: Path, begin: str, table: str = "shop.orders") -> Any:
    return executed(Remake, "http://127.0.0.1:1", tmp_path, table=table, begin=begin, dry_run=True, reason="why")


def test_a_table_that_is_not_there_fails_with_its_remedy(tmp_path: Path) -> None:
    """It is in the table's history."""
    done = run(tmp_path, "nothing")
    assert not done.success
    assert "the lake has no such table" in done.failure
    assert [told["outcome"] for _, told in done.history] == ["begun", "failed"]


def test_what_it_begins_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, a copy, or a version; anything else is refused before anything is done."""
    follows = Follows(Lake(tmp_path), "shop", 1)
    monkeypatch.setattr(remake, "copied_version", lambda *_: 9)
    assert [begin_of(follows, "shop.orders", one) for one in ("nothing", "copy", "12")] == [None, 9, 12]
    for begin in ("-1", "yesterday", ""):
        done = run(tmp_path, begin)
        assert (done.success, done.history) == (False, [])
        assert "write copy, nothing, or the number of a version" in done.failure


def test_the_command_takes_one_place_to_begin(tmp_path: Path) -> None:
    """None and another word are bad usage."""
    for given in ([], ["--begin", "yesterday"]):
        result = CliRunner().invoke(app, ["remake", "shop", "shop.orders", "--lake", str(tmp_path), *given])
        assert result.exit_code == 2
        assert "--begin" in result.output

"""`sluice now --as-of`: statements and JSON, without Spark."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_core.errors import LakeError
from orchestration.cli import app
from tests.support.lake_history import LakeHistory


@pytest.fixture
def lake(tmp_path: Path) -> LakeHistory:
    """A table that is there, and one that the source has dropped."""
    history = LakeHistory(tmp_path, random.Random(1), ["shop.a", "shop.b"])
    history.commit("shop.a", "shop.b")
    history.statement("drop", "shop.b")
    history.commit("shop.a")
    for _ in range(3):
        history.batch_of(1)
    return history


def now(lake: LakeHistory, *words: str) -> str:
    done = CliRunner().invoke(app, ["now", "d", "--lake", lake.lake.root, "--client", "1", *words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_it_prints_a_statement_for_each_table(lake: LakeHistory) -> None:
    """With the place, and the tables that it does not have."""
    lines = now(lake, "--as-of", "latest").splitlines()
    assert lines[0] == f"-- as of {lake.server.position(2)}"
    assert lines[1].startswith("CREATE OR REPLACE VIEW `shop`.`a__as_of` AS SELECT `id`, `v` FROM delta.`")
    assert lines[1].endswith(";")
    assert lines[2:] == ["-- shop.b: the source had no such table then"]


def test_its_json_has_versions_and_statements(lake: LakeHistory) -> None:
    """One object."""
    found = json.loads(now(lake, "--as-of", str(lake.server.position(0)), "--json"))
    assert found["position"] == str(lake.server.position(0))
    assert found["tables"].keys() == {"shop.a", "shop.b"}
    table = found["tables"]["shop.a"]
    assert table["view"] == "`shop`.`a__as_of`"
    assert table["sql"].endswith(f"VERSION AS OF {table['version']}")


def test_named_tables_are_taken_alone(lake: LakeHistory) -> None:
    """Others may lack the place."""
    assert json.loads(now(lake, "shop.a", "--as-of", "1", "--json"))["tables"].keys() == {"shop.a"}


def test_a_place_that_the_lake_lacks_is_an_error(lake: LakeHistory) -> None:
    """Nothing is printed before it."""
    with pytest.raises(LakeError, match="no batch for 99"):
        now(lake, "--as-of", "99")


@pytest.mark.parametrize("flag", ["--nearest", "--create"])
def test_what_needs_a_place_is_refused_without_one(lake: LakeHistory, flag: str) -> None:
    """As bad usage."""
    assert "need --as-of" in now(lake, flag)

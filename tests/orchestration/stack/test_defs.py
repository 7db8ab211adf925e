"""The folders of `defs.yaml` that `sluice up` gives to Dagster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cdc_core.config import load_service
from cdc_core.errors import ConfigError
from orchestration.stack.defs import default_folder, users_folder


def test_each_destination_has_a_component(tmp_path: Path) -> None:
    """Without a defs.yaml of the user's, every destination goes to the lake, with the rows of its tables. None is
    left of a run before."""
    (tmp_path / "canal.properties").write_text("canal.destinations = a,b\ncanal.metrics.pull.port = 1234\n")
    service, _ = load_service(tmp_path)
    default_folder(["old"], "/lake", tmp_path, service, "sc://127.0.0.1:1", tmp_path / "defs")
    folder = default_folder(["a", "b"], "/lake", tmp_path, service, "sc://127.0.0.1:1", tmp_path / "defs")

    components = {
        path.parent.name: yaml.safe_load(path.read_text())["attributes"] for path in folder.glob("*/defs.yaml")
    }
    assert sorted(components) == ["a", "b"]
    assert components["a"]["lake"] == "/lake"
    assert components["a"]["snapshot"] == "initial"
    assert components["a"]["conf"] == str(tmp_path)
    assert components["a"]["service"]["http"] == "http://127.0.0.1:1234"


def test_the_user_gives_one_file_or_a_folder(tmp_path: Path) -> None:
    """A file is copied into a folder as Dagster wants it; a folder is used as it is; anything else is an error."""
    file = tmp_path / "mine" / "defs.yaml"
    file.parent.mkdir()
    file.write_text("type: x\n")

    assert (users_folder(file, tmp_path / "defs") / "mine" / "defs.yaml").read_text() == "type: x\n"
    assert users_folder(tmp_path, tmp_path / "defs") == tmp_path
    with pytest.raises(ConfigError, match="no such file"):
        users_folder(tmp_path / "absent.yaml", tmp_path / "defs")

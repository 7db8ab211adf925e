"""The component in a Dagster project of a user's own, by its command `dg`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

COMPONENT = "orchestration.destination.CdcDestination"
PROJECT = """\
[project]
name = "shopping"
version = "0.1.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "shopping"
code_location_target_module = "shopping.definitions"
"""
DEFINITIONS = """\
from pathlib import Path

import dagster as dg


@dg.asset(automation_condition=dg.AutomationCondition.eager(), deps=[dg.AssetKey(["delta", "shop", "shop", "orders"])])
def sales() -> None: ...


@dg.definitions
def defs() -> dg.Definitions:
    found = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(found, dg.Definitions(assets=[sales]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """As `create-dagster project` makes one, with an asset that follows a table."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    package = tmp_path / "src" / "shopping"
    (package / "defs").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "defs" / "__init__.py").touch()
    (package / "definitions.py").write_text(DEFINITIONS)
    return tmp_path


def dg(project: Path, *arguments: str) -> str:
    """Runs it, with no service in reach. Returns what it printed, and fails as it does."""
    command = [str(Path(sys.executable).with_name("dg")), *arguments]
    path = os.pathsep.join([str(project / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    more = {"PYTHONPATH": path, "COLUMNS": "160", "SLUICE_SERVICE": "http://127.0.0.1:9"}
    found = subprocess.run(command, cwd=project, env=os.environ | more, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout + found.stderr


@pytest.mark.in_turn
def test_dg_knows_the_component(project: Path) -> None:
    """It is listed, with one line on what it is."""
    assert "Tables of MySQL in a Delta lake" in dg(project, "list", "components")


@pytest.mark.in_turn
@pytest.mark.full
def test_a_scaffolded_destination_loads(project: Path) -> None:
    """While the service is away, a sensor says so, and the rest of the project loads. With `tables` listed its assets
    are there."""
    dg(project, "scaffold", "defs", COMPONENT, "shop", "--lake", str(project / "lake"))
    file = project / "src" / "shopping" / "defs" / "shop" / "defs.yaml"
    found = yaml.safe_load(file.read_text())
    assert found == {"type": COMPONENT, "attributes": {"destination": "shop", "lake": str(project / "lake")}}

    dg(project, "check", "defs")
    listed = dg(project, "list", "defs")
    assert "waiting_shop" in listed
    assert "sales" in listed

    found["attributes"]["tables"] = ["shop.orders"]
    file.write_text(yaml.safe_dump(found))
    listed = dg(project, "list", "defs")
    assert "shop/orders" in listed
    assert "waiting_shop" not in listed

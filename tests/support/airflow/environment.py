"""The environment of Airflow: a virtual environment that is made once and kept, so that Sluice's own stays lean."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration.stack.artifacts import prepare
from scripts.environment import make_environment

ROOT = Path(__file__).parents[3]
DAG = ROOT / "deploy" / "airflow" / "sluice_dag.py"
_PINNED = Path(__file__).parent / "requirements.txt"
_PATIENCE = 600.0  # seconds, for one command


def airflow_python() -> Path:
    """The Python of the environment. Skips the test where it cannot be installed."""
    name = f"airflow-{hashlib.sha256(_PINNED.read_bytes()).hexdigest()[:12]}"
    try:
        return prepare(name, "made", _fill) / "bin" / "python"
    except subprocess.CalledProcessError as error:
        pytest.skip(f"Airflow cannot be installed: {error.stderr[-300:]}")


def airflow(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of Airflow, whose database and settings are in `home` and whose DAGs are the examples."""
    own = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAG.parent),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "SLUICE_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "",  # uv leaves compiling to the first import
    }
    command = [str(airflow_python()), "-m", "airflow", *arguments]
    environment = os.environ | own | variables
    return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, env=environment, check=False)


def _fill(directory: Path) -> None:
    make_environment(directory, ["-r", str(_PINNED)])
    (directory / "made").touch()

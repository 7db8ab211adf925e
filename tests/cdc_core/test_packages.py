"""Tests of cdc_core.packages: what runs without the packages of the extras."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from cdc_core import packages
from cdc_core.errors import ConfigError
from cdc_core.packages import EXTRAS, missing, required, version

ROOT = Path(__file__).parents[2]
OF_SERVICE = [
    "init",
    "preflight",
    "found",
    "server",
    "status",
    "client",
    "positions",
    "consume",
    "mirror",
    "monitor",
    "monitor_tables",
    "verb",
    "text",
    "terminal",
    "service",
]
OF_DAGSTER = ["demo", "up", "alert", "drain"]
WITHOUT_SPARK = ["pause", "rollback", "reset"]

_IMPORT = """
import importlib, importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for module in MODULES:
    importlib.import_module(module)
print("imported")
"""


def modules(package: str) -> list[str]:
    """The modules of a package of this project."""
    files = sorted((ROOT / package).rglob("*.py"))
    return [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]


def imports(names: list[str], extras: set[str]) -> str:
    """What a process prints that imports these modules and has the packages of these extras alone."""
    absent = {package for package, extra in EXTRAS.items() if extra not in extras}
    code = f"ABSENT, MODULES = {absent}, {names}\n{_IMPORT}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.strip() or done.stderr


def test_the_service_and_its_commands_need_no_extra() -> None:
    """All of cdc_core but the Kafka client, and the commands that ask the service alone."""
    names = [name for name in modules("cdc_core") if name != "cdc_core.canal.queues.kafka"]
    names += ["orchestration.cli", *(f"orchestration.commands.{name}" for name in OF_SERVICE)]
    names += [f"orchestration.verbs.{name}" for name in WITHOUT_SPARK]

    assert imports(names, set()) == "imported"


def test_what_runs_on_spark_needs_no_dagster() -> None:
    """All of spark_jobs, every verb, and the commands that start no Dagster."""
    names = [name for name in modules("spark_jobs") if name != "spark_jobs.connect_host"]
    names += modules("orchestration/verbs")
    names += [name for name in modules("orchestration/commands") if name.rpartition(".")[2] not in OF_DAGSTER]

    assert imports(names, {"spark"}) == "imported"


def test_each_extra_is_declared() -> None:
    """A hint names an extra of pyproject.toml, and `all` has every one."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = declared["optional-dependencies"]

    assert declared["name"] == packages.DISTRIBUTION
    assert set(EXTRAS.values()) == extras.keys() - {"all", "dev", "docs", "fuzz"}
    assert extras["all"] == [f"{packages.DISTRIBUTION}[{','.join(sorted(set(EXTRAS.values())))}]"]


def test_a_package_that_is_absent_names_its_extra() -> None:
    """The error has the command that installs it; one that is there but broken says why."""
    error = missing(ModuleNotFoundError("No module named 'pyspark'"), "pyspark.sql", "sluice sql")
    broken = missing(ImportError("libssl.so.3 is missing"), "rocketmq")

    assert (error.message, error.place) == ("the package pyspark is not installed", "sluice sql")
    assert error.hint == "Install it: pip install 'sluice-cdc[spark]'."
    assert "libssl.so.3" in broken.message
    with pytest.raises(ConfigError, match="no_such_package"):
        required("no_such_package", "here")


@pytest.mark.parametrize("command", OF_DAGSTER)
def test_a_command_of_dagster_names_its_extra_at_once(command: str) -> None:
    """Not first `spark`, whose packages it imports before Dagster's, and then `dagster`."""
    error = missing(ModuleNotFoundError("No module named 'deltalake'"), "deltalake", f"sluice {command}")

    assert error.hint == "Install it: pip install 'sluice-cdc[dagster]'."


def test_the_version_is_found_under_the_earlier_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that was made before the distribution was renamed goes on; without either it is unknown."""

    def only(name: str) -> str:
        if name != "sluice":
            raise PackageNotFoundError(name)
        return "0.1.0"

    monkeypatch.setattr(packages, "installed", only)
    assert version() == "0.1.0"
    monkeypatch.setattr(packages, "_EARLIER", "nothing")
    assert version() == "unknown"


def test_python_m_is_the_command() -> None:
    """`python -m orchestration` says and does what `sluice` does, and takes its name."""
    shown = [
        subprocess.run([*command, "--help"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
        for command in ([sys.executable, "-m", "orchestration"], [sys.executable, "-c", _MAIN])
    ]

    assert shown[0] == shown[1]
    assert "Usage: sluice " in shown[0]
    assert "--install-completion" in shown[0]


_MAIN = "import sys; sys.argv[0] = '/usr/bin/sluice'; from orchestration.cli import main; main()"

"""What GitHub reads: workflows, forms and hooks parse, and name what this project has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE" / "config.yml"})
PINNED = re.compile(r"^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
SUPPORT = ROOT / "docs" / "support.md"
HOST = re.compile(r"\b(?:[a-z0-9-]+\.)+(?:org|io|com|dev|net)\b")
NO_REGISTRIES = {"kubernetes.io", "app.kubernetes.io", "networking.k8s.io", "spark.example.org"}  # labels, an example


def targets() -> set[str]:
    """The targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def steps(workflow: Path) -> list[dict[str, Any]]:
    """All steps of a workflow's jobs."""
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step for job in jobs for step in job.get("steps", ())]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_a_workflow_runs_what_is_there(workflow: Path) -> None:
    """Each command is a target of the Makefile, a program of scripts/, or the release by GitHub's own command."""
    for step in steps(workflow):
        assert ("run" in step) != ("uses" in step), step
        for line in step.get("run", "").splitlines():
            program, argument = line.split()[:2]
            if program == "make":
                assert argument in targets(), line
            elif program != "gh":
                assert program.startswith("scripts/"), line
                assert (ROOT / program).stat().st_mode & 0o111, line


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_actions_are_pinned(workflow: Path) -> None:
    """To a commit, with the version beside it; a workflow of this project by its path."""
    lines = re.findall(r"^\s*-? ?uses: (.*)$", workflow.read_text(), re.MULTILINE)

    assert lines
    for line in lines:
        assert PINNED.match(line) or (line.startswith("./") and (ROOT / line).is_file()), line


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_a_workflow_may_only_read(workflow: Path) -> None:
    """Rights to write are those of a job, and each job ends at some time."""
    content = yaml.safe_load(workflow.read_text())

    assert content["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job or "uses" in job for job in content["jobs"].values())


def test_no_file_names_a_registry() -> None:
    """Where packages and images come from is the business of who runs this."""
    files = [path for top in (GITHUB, ROOT / "deploy") for path in top.rglob("*") if path.is_file()]
    files = [path for path in files if path.parent.name != "__pycache__"]
    files += [ROOT / ".pre-commit-config.yaml", ROOT / "SECURITY.md", SUPPORT, ROOT / "Dockerfile"]

    assert [path for path in files if set(HOST.findall(path.read_text())) - NO_REGISTRIES] == []


def test_the_shards_are_all_tests() -> None:
    """Each module is in one shard, and the matrix has as many shards as the script."""
    jobs = yaml.safe_load((GITHUB / "workflows" / "check.yml").read_text())["jobs"]
    shards = jobs["test"]["strategy"]["matrix"]["shard"]
    found: list[str] = []
    for shard in shards:
        command = [ROOT / "scripts" / "shard", str(shard), "--list"]
        found += subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    outside = subprocess.run([ROOT / "scripts" / "shard", str(len(shards) + 1)], capture_output=True)

    assert sorted(found) == sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    assert outside.returncode == 2


def test_hooks_are_those_of_make_lint() -> None:
    """The same commands in the same order."""
    text = (ROOT / "Makefile").read_text()
    assert re.search(r"^lint: style types ", text, re.MULTILINE)
    recipes = re.findall(r"^(?:style|types):.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    commands = re.findall(r"\$\(BIN\)/([\w-]+(?: [\w.-]+)*)", "".join(recipes))
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]

    assert local["repo"] == "local"
    assert [hook["entry"].removeprefix(".venv/bin/") for hook in local["hooks"]] == commands
    assert all(hook["language"] == "system" and not hook["pass_filenames"] for hook in local["hooks"])


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_forms_have_what_github_asks_for(form: Path) -> None:
    """A name, a description, and fields with ids of their own, of the types that there are."""
    content = yaml.safe_load(form.read_text())
    fields = [field for field in content["body"] if field["type"] != "markdown"]

    assert content.keys() <= {"name", "description", "labels", "body"}
    assert {field["type"] for field in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)


def test_dependabot_looks_after_packages_actions_and_images() -> None:
    """By the files that are in the project's folder."""
    updates = yaml.safe_load((GITHUB / "dependabot.yml").read_text())["updates"]

    assert {one["package-ecosystem"] for one in updates} == {"github-actions", "docker", "pip"}
    assert {one["directory"] for one in updates} == {"/"}


def test_each_cell_of_the_support_matrix_says_how_it_is_known() -> None:
    """`tested`, `without servers` or `not tested`; and the versions are those of constraints.txt."""
    rows = re.findall(r"^\| (\w[^|]*) \| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", SUPPORT.read_text(), re.MULTILINE)
    cells = [row for row in rows if row[0] != "what"]
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    packages = {
        "Spark": "pyspark",
        "Delta (Spark)": "delta_spark",
        "Delta (delta-rs)": "deltalake",
        "Dagster": "dagster",
    }

    assert {"Python", "MySQL", "MariaDB", *packages} <= {row[0] for row in cells}
    assert {row[2] for row in cells} <= {"tested", "without servers", "not tested"}
    for name, package in packages.items():
        assert [row[1] for row in cells if row[0] == name and row[2] == "tested"] == [pinned[package]]

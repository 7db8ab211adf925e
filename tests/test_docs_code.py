"""The code on the documentation's pages is what the project takes: command lines, keys, defs.yaml, Python, SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.doc_code import ROOT, blocks, command_fault, faults

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_is_right(page: Path) -> None:
    """Commands, their options and values, targets of make, keys of the files, Python's imports, and SQL."""
    assert list(faults(page)) == []


_WRONG = """\
Text, `sluice stats`.

```properties
canal.instance.master.adress = db:3306
```

    sluice verify --lak /data/lake
    make dmo ONCE=1

```yaml
attributes:
  snapshot: sometimes
```

```python
from orchestration.draining import drains
```

    SELECT FROM WHERE;
"""


def test_wrong_code_is_found(tmp_path: Path) -> None:
    """One fault of each kind, with its line."""
    page = tmp_path / "page.md"
    page.write_text(_WRONG)

    found = list(faults(page))

    assert [one.split(":")[1] for one in found] == ["4", "7", "7", "11", "16", "19", "1"]
    assert "canal.instance.master.adress is no key" in found[0]
    assert "No such option" in found[1]
    assert "no target dmo" in found[2]
    assert "no defs.yaml" in found[3]
    assert "has no drains" in found[4]
    assert "no SQL" in found[5]
    assert "there is no command stats" in found[6]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("status --json", ""),
        ("up --lake /data/lake --dagster-port many", "valid integer"),
        ("up --conf conf", "lake"),
        ("destination halt shop", "no command halt"),
        ("status shop", "too much"),
    ],
)
def test_command_lines_are_judged_by_the_commands(line: str, wrong: str) -> None:
    """Names, options, values and the number of words."""
    fault = command_fault(line, whole=True)

    assert bool(fault) == bool(wrong)
    assert wrong in fault


@pytest.mark.parametrize("name", ["README.md", "docs/start.md", "docs/install.md"])
def test_the_first_steps_are_those_that_are_measured(name: str) -> None:
    """The pages have one list of them, and scripts/first_row.py runs its commands in its order."""
    (steps,) = [one.text for one in blocks(ROOT / name) if "sluice-cdc[dagster]" in one.text]
    script = (ROOT / "scripts" / "first_row.py").read_text()
    places = [script.index(text) for text in ('"[dagster]"', '"sluice", "init"', '"sluice", "check"', '["up", ')]

    assert steps == _STEPS
    assert places == sorted(places)


_STEPS = """\
pip install 'sluice-cdc[dagster]'
sluice init --destination shop --address db.example.org:3306 --database shop --lake /data/lake
export MYSQL_PASSWORD=...
sluice check --conf conf --lake /data/lake
sluice up --conf conf --lake /data/lake --defs defs.yaml"""

"""`make help`: what a stranger types first."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

MAKEFILE = Path(__file__).parents[3] / "Makefile"


def help_of(makefile: Path) -> str:
    done = subprocess.run(["make", "-f", str(makefile), "help"], capture_output=True, text=True, check=True)
    return done.stdout


def test_help_lists_every_target_and_variable() -> None:
    """Each target that is no file, and each variable that a caller may set."""
    text = MAKEFILE.read_text()
    targets = re.findall(r"^([\w-][\w.-]*):(?!=)", text, re.M)
    variables = re.findall(r"^(\w+)\s*\?=", text, re.M)
    shown = help_of(MAKEFILE)

    assert {"demo", "up", "test"} <= set(targets)
    assert [target for target in targets if not re.search(rf"^  make {target} ", shown, re.M)] == []
    assert [name for name in variables if not re.search(rf"^  {name}=", shown, re.M)] == []


def test_a_target_with_digits_and_dashes_is_listed(tmp_path: Path) -> None:
    """Names are not only letters."""
    shutil.copy(MAKEFILE, tmp_path / "Makefile")
    with (tmp_path / "Makefile").open("a") as makefile:
        makefile.write("\nmysql-5.7_check: setup ## try one server\n")

    assert re.search(r"^  make mysql-5.7_check +try one server$", help_of(tmp_path / "Makefile"), re.M)

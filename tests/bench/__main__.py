"""`python -m tests.bench [NAME]`: runs every bench_*.py, or the ones whose file or measurement is NAME.

Passes on the JSON lines alone; the rest of their output is for the error stream. Fails when one of them fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    wanted = arguments[0] if arguments else ""
    files = [path for path in sorted(HERE.glob("bench_*.py")) if _covers(path, wanted)]
    if not files:
        known = ", ".join(path.stem.removeprefix("bench_") for path in sorted(HERE.glob("bench_*.py")))
        print(f"no measurement called {wanted!r}; files: {known}", file=sys.stderr)
        return 2
    return max(_run(path, wanted) for path in files)


def _covers(path: Path, wanted: str) -> bool:
    """By the file's name, or by a measurement's name written in it."""
    return not wanted or path.stem == f"bench_{wanted}" or f'"{wanted}"' in path.read_text()


def _run(path: Path, wanted: str) -> int:
    command = [sys.executable, "-m", f"tests.bench.{path.stem}"]
    with subprocess.Popen(command, cwd=HERE.parents[1], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            name = _name(line)
            if name is not None and (not wanted or name == wanted or path.stem == f"bench_{wanted}"):
                print(line.rstrip(), flush=True)
            elif name is None:
                print(line.rstrip(), file=sys.stderr, flush=True)
    return child.returncode


def _name(line: str) -> str | None:
    try:
        return str(json.loads(line)["name"])
    except (ValueError, KeyError, TypeError):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

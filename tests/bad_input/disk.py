"""Small file systems in memory, which are soon full."""

from __future__ import annotations

import subprocess
from pathlib import Path


def mount(path: Path, size: str) -> bool:
    """Mounts one; returns False where that is not allowed. It needs root."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    return subprocess.run(command, capture_output=True).returncode == 0


def unmount(path: Path) -> None:
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(path: Path) -> Path:
    """Writes a file that takes all the room that is left."""
    ballast = path / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            return ballast

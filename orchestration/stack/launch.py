"""Starting servers one after the other, and stopping all of them at the end."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Protocol

from orchestration.stack.progress import Progress


class Server(Protocol):
    def start(self) -> object: ...
    def stop(self) -> None: ...


def launch(parts: ExitStack, progress: Progress, label: str, server: Server) -> None:
    """Starts a server as one step of the progress. `parts` stops it, also when its start fails."""
    parts.callback(server.stop)
    with progress.step(label):
        server.start()

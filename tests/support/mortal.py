"""Nodes of a process that is killed at one of its writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cdc_core.meta.nodes import Change, Nodes


class Mortal:
    """Nodes of a process that is killed before or after its nth write, by `error`."""

    def __init__(
        self, nodes: Nodes, dies_at: int, *, after: bool, error: type[BaseException] = KeyboardInterrupt
    ) -> None:
        self.nodes, self.left, self.after, self.error = nodes, dies_at, after, error
        self.place, self.read, self.children, self.close = nodes.place, nodes.read, nodes.children, nodes.close

    def write(self, changes: Mapping[str, Change]) -> None:
        self.left -= 1
        if self.left >= 0 or self.after:
            self.nodes.write(changes)
        if self.left < 0:
            raise self.error


def dies(work: Callable[[], object], error: type[BaseException] = KeyboardInterrupt) -> bool:
    """Whether the process was killed in it."""
    try:
        work()
    except error:
        return True
    return False

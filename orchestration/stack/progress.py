"""Progress on the error stream: a spinner in a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

Notify = Callable[[str], None]
"""Takes one short line about a step that takes a while."""

_LINE_SECONDS = 5.0  # between two lines of detail in a log


def quiet(_: str) -> None:
    """A `Notify` that prints nothing."""


class Progress:
    """Prints steps, one after the other, each with its seconds. With `quiet` it prints nothing."""

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self._clock = clock

    def say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)

    @contextmanager
    def step(self, name: str) -> Iterator[Notify]:
        """Runs a step. The `Notify` that it yields takes details, which vanish with the end of the step."""
        began = last = self._clock()

        def detail_line(detail: str) -> None:
            nonlocal last
            if self._clock() - last >= _LINE_SECONDS:
                last = self._clock()
                self.console.print(f"  {name}: {detail}", soft_wrap=True)

        if self.console.is_terminal:
            with self.console.status(name) as status:
                yield lambda detail: status.update(f"{name}: {detail}")
        else:
            yield detail_line
        self.console.print(f"[green]✓[/green] {name} [dim]{self._clock() - began:.1f} s[/dim]")

"""Tells on the error stream what is going on: a spinner for people, plain lines for logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from orchestration.stack.home import Notify

_LINE_SECONDS = 5.0


class Progress:
    """Steps, one after the other, each with its seconds. `quiet` says nothing at all."""

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self._clock = clock

    def say(self, line: str) -> None:
        self.console.print(line)

    @contextmanager
    def step(self, name: str) -> Iterator[Notify]:
        """Runs a step; what it is given may be told details. The step's line stays, its details go."""
        began, last = self._clock(), [self._clock()]
        if self.console.is_terminal:
            with self.console.status(name) as status:
                yield lambda detail: status.update(f"{name}: {detail}")
        else:
            yield lambda detail: self._detail(name, detail, last)
        self.console.print(f"[green]✓[/green] {name} [dim]{self._clock() - began:.1f} s[/dim]")

    def _detail(self, name: str, detail: str, last: list[float]) -> None:
        """A line now and then."""
        if self._clock() - last[0] >= _LINE_SECONDS:
            last[0] = self._clock()
            self.console.print(f"  {name}: {detail}", soft_wrap=True)

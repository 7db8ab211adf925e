"""A verb's report in a terminal: a line for each thing that was done, and how far it is meanwhile.

Where the output goes to a program, or with --json, a JSON object takes the place of a line about a table.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from rich.console import Console
from rich.status import Status
from rich.text import Text

from cdc_core.errors import SluiceError
from orchestration.verbs.report import Done, Kind, Report

_Step = TypeVar("_Step")


class Terminal(Report):
    """`failed`: how many tables are not as they should be. `destination`: whose they are, where that must be said."""

    def __init__(self, *, as_json: bool, reason: str = "", destination: str = "") -> None:
        self.failed = 0
        self._whose = {"destination": destination} if destination else {}
        self.reason = reason
        self._console, self._as_json = Console(), as_json
        self._status: Status | None = None
        self._progress = Text()  # shown until there is another, whatever lines come in between

    def one(self, name: str, work: Callable[[], Done], kind: Kind = "delta") -> None:
        done = self._worked(work)
        subject = {"table": name} if kind == "delta" else {}
        self._show(": ".join([*subject.values(), done.text]), subject | {**done.facts}, done, as_json=self._as_json)

    def each(
        self, name: str, work: Callable[[], Done], kind: Kind = "delta", otherwise: Mapping[str, Any] | None = None
    ) -> None:
        try:
            done = self._worked(work)
        except SluiceError as error:
            done = Done(str(error), {**(otherwise or {}), **error.as_dict()}, good=False)
        except Exception as error:  # whatever it is, the next table may do well
            traceback.print_exc()
            done = Done(f"{type(error).__name__}: {error}", {**(otherwise or {}), "error": str(error)}, good=False)
        self.failed += not done.good
        subject = name if kind == "delta" else f"{name}__{kind}"
        self._show(f"{subject}: {done.text}", {"table": subject, **done.facts}, done, as_json=self._for_programs)

    def refused(self, error: SluiceError) -> None:
        """Reports why nothing could begin."""
        self.failed += 1
        self._show(str(error), error.as_dict(), Done("", {}, good=False), as_json=self._for_programs)

    def during(self, steps: Iterator[_Step]) -> Iterator[_Step]:
        while True:
            with self._console.status(self._progress) as self._status:
                step = next(steps, None)
            if step is None:
                return
            yield step

    def progress(self, text: str) -> None:
        self._progress = Text(text)
        if self._status is not None:
            self._status.update(self._progress)

    @property
    def _for_programs(self) -> bool:
        return self._as_json or not self._console.is_terminal

    def _worked(self, work: Callable[[], Done]) -> Done:
        with self._console.status("") as self._status:
            return work()

    def _show(self, text: str, facts: Mapping[str, Any], done: Done, *, as_json: bool) -> None:
        text = ": ".join([*self._whose.values(), text])
        if as_json:
            print(json.dumps(self._whose | {**facts}), flush=True)
        elif self._console.is_terminal:
            self._console.print(Text(text, "" if done.good else "red"))
        else:
            print(text, flush=True)

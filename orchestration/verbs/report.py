"""What a verb reports: a line and facts for each thing that it does, and how far it is meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

_Step = TypeVar("_Step")
Kind = Literal["delta", "log", "history", "store"]
"""Of what: a table, its change log, its history; or the destination."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result for a table or a destination: `text` for people, `facts` for programs and for Dagster. `good` is False
    if it is not as it should be; `reloaded`: all rows of the table were replaced."""

    text: str
    facts: Mapping[str, Any]
    good: bool = True
    reloaded: bool = False


class Report(ABC):
    """To a terminal, or to Dagster. `reason`: why it is done."""

    reason: str = ""

    @abstractmethod
    def one(self, name: str, work: Callable[[], Done], kind: Kind = "delta") -> None:
        """Does the work and reports it. Raises what the work raises."""

    @abstractmethod
    def each(
        self, name: str, work: Callable[[], Done], kind: Kind = "delta", otherwise: Mapping[str, Any] | None = None
    ) -> None:
        """Does the same as one of several: any error is reported, with the facts `otherwise`, and not raised."""

    def during(self, steps: Iterator[_Step]) -> Iterator[_Step]:
        """Yields the steps of work that calls `progress` between them."""
        return steps

    @abstractmethod
    def progress(self, text: str) -> None:
        """Shows how far the work is that is under way."""

    def waiting(self, table: str, rows: Mapping[str, int]) -> None:  # noqa: B027 - a terminal shows it otherwise
        """Reports how many rows of a table wait in its quarantine, by the checks that they failed."""

    def accepted(self, table: str, checks: Sequence[str]) -> None:  # noqa: B027 - a terminal shows it otherwise
        """Reports that a person took the rows that failed these checks of a table."""

    def stopped(self, table: str, position: str) -> None:  # noqa: B027 - a terminal shows it otherwise
        """Reports that the work has stopped a table."""

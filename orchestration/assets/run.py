"""The run that a drain works for: its id, its log and events, and whether another run waits for it.

Dagster's is here. That of the command and of other schedulers is in `orchestration.draining`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import dagster as dg

from cdc_core.contract.claim import Claim
from orchestration.assets.reports import BatchLines
from orchestration.assets.turns import queued
from orchestration.names import ACKED_TAG, LEFT_TAG, UNTIL_TAG
from spark_jobs.apply.result import BatchResult


class Log(Protocol):
    """Lines for people."""

    def info(self, text: str, /) -> None: ...

    def warning(self, text: str, /) -> None: ...

    def error(self, text: str, /) -> None: ...


class BatchNews(Protocol):
    """The lines about acked batches."""

    def add(self, claim: Claim, batch: BatchResult, seconds: float, *, at_once: bool) -> None:
        """A batch is acked; from its claim to its ack it took so long. `at_once`: it has other lines already."""

    def write_due(self) -> None: ...

    def write(self) -> None: ...


class DrainRun(Protocol):
    """What a drain knows of its run. `instance`: what earlier runs reported; None if nobody keeps that."""

    @property
    def run_id(self) -> str: ...

    @property
    def log(self) -> Log: ...

    @property
    def instance(self) -> dg.DagsterInstance | None: ...

    @property
    def until(self) -> int | None:
        """Returns up to when this run takes rows that another one left, in milliseconds since 1970; or None."""

    def log_event(self, event: Any, /) -> None:
        """Takes a materialization, or the evaluation of a check."""

    def lines(self, seconds: float, clock: Callable[[], float]) -> BatchNews: ...

    def acked(self, claim: Claim) -> None:
        """The claim is checked and acked."""

    def leaves(self, until: int) -> None:
        """The run ends, and rows of before this time are left."""

    def others_wait(self) -> bool:
        """Returns whether another job waits for what the run holds."""


@dataclass(frozen=True, slots=True)
class DagsterRun:
    """A run of Dagster, which holds a place in `pool`."""

    context: dg.OpExecutionContext
    pool: str

    @property
    def run_id(self) -> str:
        return self.context.run.run_id

    @property
    def log(self) -> Log:
        return self.context.log

    @property
    def instance(self) -> dg.DagsterInstance:
        return self.context.instance

    @property
    def until(self) -> int | None:
        return int(self.context.run.tags.get(UNTIL_TAG) or 0) or None

    def log_event(self, event: Any, /) -> None:
        self.context.log_event(event)

    def lines(self, seconds: float, clock: Callable[[], float]) -> BatchLines:
        return BatchLines(self.context.log.info, seconds, clock)

    def acked(self, claim: Claim) -> None:
        tags = {"cdc/batch_id": str(claim.batch_id), ACKED_TAG: str(claim.end)}
        self.context.instance.add_run_tags(self.run_id, tags)

    def leaves(self, until: int) -> None:
        self.context.instance.add_run_tags(self.run_id, {LEFT_TAG: str(until)})

    def others_wait(self) -> bool:
        return queued(self.context.instance, self.pool)

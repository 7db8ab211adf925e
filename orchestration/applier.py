"""The lake as a drain sees it: three verbs, and how Spark and the ledger do them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cdc_core.client.connector import Connector
from cdc_core.position import EntryPosition
from cdc_core.session.claim import Claim
from spark_jobs.checks import TableResult
from spark_jobs.fence import Fence
from spark_jobs.lake import Lake
from spark_jobs.ledger import Ledger, check_cursor
from spark_jobs.merge import apply_batch
from spark_jobs.session import Sessions


class Applier(Protocol):
    """What a drain asks of a lake."""

    def check_cursor(self, state: Mapping[str, Any]) -> None:
        """Raises LakeError when the service acked what the lake does not have."""

    def apply(self, claim: Claim, run_id: str, parallelism: int, stopped: Sequence[str]) -> list[TableResult]:
        """Merges all tables of a claim; a table that cannot take it comes back with its `stop`."""

    def note(self, claim: Claim, results: Sequence[TableResult], run_id: str) -> None:
        """Writes the batch into the ledger, after the tables and before the ack."""


@dataclass(frozen=True, slots=True)
class SparkLake:
    """The real one, for one run."""

    connector: Connector
    lake: Lake
    sessions: Sessions
    token: str
    fence: Fence
    clock: Callable[[], float] = time.time

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.lake, self.connector.destination, self.connector.client_id)

    def check_cursor(self, state: Mapping[str, Any]) -> None:
        acked = state.get("acked")
        check_cursor(EntryPosition.from_dict(acked) if acked else None, int(state["epoch"]), self.ledger)

    def note(self, claim: Claim, results: Sequence[TableResult], run_id: str) -> None:
        self.ledger.note(claim, results, run_id, self.clock())

    def apply(self, claim: Claim, run_id: str, parallelism: int, stopped: Sequence[str]) -> list[TableResult]:
        return apply_batch(
            claim,
            self.lake,
            self.sessions,
            self.connector.flight_url,
            token=self.token,
            run_id=run_id,
            parallelism=parallelism,
            max_splits=parallelism,
            stopped=stopped,
            fence=self.fence,
        )

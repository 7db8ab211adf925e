"""The Flight door's calls in plain values: the plan of a table's read, and the record batches of one split.

A stream holds one record batch at a time: its memory does not grow with the table. A ticket of a claim that is gone is
refused. A stream that has begun goes on, because its reader is fenced by versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from cdc_core.destination.service import CanalService
from cdc_core.doors.flight.plans import Plans
from cdc_core.doors.flight.tickets import ClaimId, Read, read_ticket
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import ConfigError, DecodeError, TableStopped
from cdc_core.server.server import CanalServer

if TYPE_CHECKING:
    from cdc_core.rows.plan import RowsPlan

_FEW_ROWS = 1000  # of a small plan, which takes 8 bytes for each
_ANEW = "Then reload the table from the source (sluice copy)."


@dataclass(frozen=True, slots=True)
class Info:
    """The planned read: the Arrow schema with its metadata, the rows, and a ticket for each split."""

    schema: pa.Schema
    rows: int
    tickets: tuple[bytes, ...]


class ServedRows:
    """Loads the kernels for rows with the first call: without them the service connects to its sources sooner."""

    def __init__(self, server: CanalServer, traffic: Traffic) -> None:
        self._server = server
        self._traffic = traffic
        self.plans = Plans(self._plan, self._check, lambda plan: plan.rows <= _FEW_ROWS)

    def info(self, read: Read) -> Info:
        """Raises RangeGone, TableStopped."""
        with self._noted(read, read.table):
            plan = self.plans.get(read)
            schema = plan.arrow_schema  # an unknown type is an error here
        metadata = {"sluice.table": json.dumps(plan.schema.to_dict()), "sluice.plan": json.dumps(plan.to_dict())}
        tickets = tuple(read.ticket(at) for at in range(len(plan.splits)))
        return Info(schema.with_metadata(metadata), plan.rows, tickets)

    def stream(self, ticket: bytes) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The Arrow schema and the record batches of a split."""
        from cdc_core.rows import net

        read, split = read_ticket(ticket)
        plan = self.plans.get(read)
        if split >= len(plan.splits):
            raise ConfigError("the plan has no such split", place=f"split {split}", hint="Call get_flight_info again.")
        service = self._service(read)
        slices = service.slices(read.client_id, read.batch_id)
        batches = net.read(replace(plan, slices=slices), split, zero_dates=service.config.zero_dates)
        return plan.arrow_schema, self._counted(read, f"{read.table}, part {split + 1} of {read.splits}", batches)

    def _counted(self, read: Read, part: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self._noted(read, part):
            for batch in batches:
                self._traffic.sent(read.destination, "ROWS", batch.get_total_buffer_size())
                yield batch

    @contextmanager
    def _noted(self, read: Read, part: str) -> Iterator[None]:
        """Rows that cannot be read stop their table. Any other error is reported to the destination, which may show
        it."""
        service = self._service(read)
        try:
            yield
        except TableStopped:
            raise
        except DecodeError as error:
            raise TableStopped(error.message, place=error.place, hint=f"{error.hint} {_ANEW}") from error
        except Exception as error:
            service.note_read(read.client_id, read.batch_id, part, error)
            raise
        service.note_read(read.client_id, read.batch_id, part, None)

    def _plan(self, read: Read) -> RowsPlan:
        from cdc_core.rows import net

        plan = net.plan_net if read.mode == net.NET else net.plan_changes
        service = self._service(read)
        rules = service.seen_by(read.client_id, read.batch_id)
        slices = service.slices(read.client_id, read.batch_id)
        made = plan(slices, service.registry, read.table, read.after, read.splits, rules)
        return replace(made.seen(rules), slices=())  # a kept plan must not hold the ring's blocks beyond the ack

    def _check(self, claim: ClaimId) -> None:
        """Raises RangeGone for a claim that is not outstanding. Lists no blocks of one that is."""
        service = self._service(claim)
        if service.span(claim.client_id, claim.batch_id) is None:
            service.slices(claim.client_id, claim.batch_id)  # raises it

    def _service(self, read: Read | ClaimId) -> CanalService:
        return self._server.destination(read.destination).service()

"""A plan: what the service answers when asked for one table's share of a claim, before any row moves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from cdc_core.errors import AccessDenied, LakeError, RangeGone, SluiceError
from cdc_core.schema.table import TableSchema
from spark_jobs.source import call_options, command


@dataclass(frozen=True, slots=True)
class Plan:
    """Counts are of what lies after the applied version. `min_key` and `max_key` bound a single integer key."""

    schema: TableSchema
    arrow: pa.Schema
    tickets: tuple[bytes, ...]
    rows: int
    upserts: int
    deletes: int
    raw_inserts: int
    raw_updates: int
    raw_deletes: int
    insert_only: bool
    min_key: Any = None
    max_key: Any = None


def fetch_plan(url: str, options: Mapping[str, str], token: str = "") -> Plan:
    """Asks for the plan. Raises RangeGone, AccessDenied, or LakeError when the service is away."""
    with flight_errors(url, options), flight.connect(url) as client:
        descriptor = flight.FlightDescriptor.for_command(command(options))
        info = client.get_flight_info(descriptor, call_options(token))
    metadata = info.schema.metadata
    counts = json.loads(metadata[b"sluice.plan"])
    tickets = tuple(endpoint.ticket.ticket for endpoint in info.endpoints)
    return Plan(TableSchema.from_dict(_definition(metadata)), info.schema, tickets, **counts)


def _definition(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    fields = json.loads(metadata[b"sluice.table"])
    return {key: value for key, value in fields.items() if key != "version"}


class flight_errors:  # noqa: N801 - reads as a statement
    """Names what Flight's errors mean to the one who applies a batch."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self._place = f"{options['destination']}/{options['table']}, batch {options['batch_id']} at {url}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, SluiceError):
            return
        text = str(error).partition(". gRPC")[0][:500]
        if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
            hint = "Give the token of sluice.token in conf/canal.properties."
            raise AccessDenied("the service refused the token", place=self._place, hint=hint) from error
        if "RangeGone" in text or "range is gone" in text:
            hint = "Claim again: the range is given out anew from the last ack."
            raise RangeGone("the claim is gone at the service", place=self._place, hint=hint) from error
        if isinstance(error, flight.FlightError | pa.ArrowException | OSError):
            hint = "See the service's log and status page; the batch is given back and claimed again."
            raise LakeError(f"the service did not give the changes: {text}", place=self._place, hint=hint) from error

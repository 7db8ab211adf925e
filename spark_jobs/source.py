"""`spark.read.format("sluice")`: a claim's changes of one table, pulled from Arrow Flight by Spark's tasks.

Each split of the service is one partition; rows travel as Arrow record batches. The reader is deterministic: a ticket
stands for one range. What it does not do: claim, ack or filter.

Options: `url`, `destination`, `client_id`, `batch_id`, `table`, `mode` (net or changes), `after`, `splits`, `token`;
or `tickets`, those of an earlier plan, so that the service is not asked again. `token` is a name that Spark redacts by
itself; it is in no message of ours.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.flight as flight
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cdc_core.client.changes import read_split


def command(options: Mapping[str, str]) -> bytes:
    """The command that get_flight_info takes, from the options of a read."""
    after = options.get("after")
    fields = {
        "destination": options["destination"],
        "client_id": int(options["client_id"]),
        "batch_id": int(options["batch_id"]),
        "table": options["table"],
        "mode": options.get("mode", "net"),
        "after": int(after) if after not in (None, "") else None,
        "splits": int(options.get("splits", "1")),
    }
    return json.dumps(fields).encode()


def _info(options: Mapping[str, str]) -> flight.FlightInfo:
    token = options.get("token")
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    with flight.connect(options["url"]) as client:
        descriptor = flight.FlightDescriptor.for_command(command(options))
        return client.get_flight_info(descriptor, flight.FlightCallOptions(headers=headers))


def pack_tickets(tickets: Sequence[bytes]) -> str:
    """Tickets of a plan as one option."""
    return ",".join(base64.b64encode(ticket).decode() for ticket in tickets)


class Split(InputPartition):
    """One ticket."""

    def __init__(self, ticket: bytes) -> None:
        self.ticket = ticket


class SluiceReader(DataSourceReader):
    """Reads the splits of one table's share of a claim."""

    def __init__(self, options: dict[str, str], columns: list[str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        packed = self._options.get("tickets")
        if packed is not None:
            return [Split(base64.b64decode(ticket)) for ticket in packed.split(",") if ticket]
        return [Split(endpoint.ticket.ticket) for endpoint in _info(self._options).endpoints]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        for batch in read_split(self._options["url"], partition.ticket, token=self._options.get("token")):
            yield batch.select(self._columns)


class SluiceSource(DataSource):
    """The entry that Spark knows as `sluice`."""

    @classmethod
    def name(cls) -> str:
        return "sluice"

    def _plain(self) -> dict[str, str]:
        return {key.lower(): value for key, value in dict(self.options).items()}

    def schema(self) -> StructType:
        """Asked only when the reader was given no schema: the service's own for that table."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_info(self._plain()).schema, prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> SluiceReader:
        return SluiceReader(self._plain(), schema.fieldNames())

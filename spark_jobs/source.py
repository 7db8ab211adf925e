"""`spark.read.format("sluice")`: a claim's changes of one table, pulled from Arrow Flight by Spark's tasks.

Each split of the service is one partition; rows travel as Arrow record batches. A ticket always gives the same rows, as
long as its claim is held. The reader does not claim, ack or filter.

Options: `url`, `destination`, `client_id`, `batch_id`, `table`, `mode` (net or changes), `after`, `splits`, `token`,
and `ca`, the authorities of a door with TLS as PEM text; or `tickets` of a plan that was made before, so that the
service is not asked again. Spark redacts an option named `token`, and none of our messages has it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cdc_core.client.changes import PlanRequest, RowsDoor, TableRead


def _door(options: Mapping[str, str]) -> RowsDoor:
    return RowsDoor(options["url"], options.get("token", ""), options.get("ca", ""))


def _plan(options: Mapping[str, str]) -> TableRead:
    """What the service plans for the options of a read."""
    after = options.get("after")
    request = PlanRequest(
        options["destination"],
        int(options["client_id"]),
        int(options["batch_id"]),
        options["table"],
        options.get("mode", "net"),
        int(after) if after else None,
        int(options.get("splits", "1")),
    )
    with _door(options).connect() as rows:
        return rows.plan(request)


def pack_tickets(tickets: Sequence[bytes]) -> str:
    """The tickets of a plan as one option."""
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
        return [Split(ticket) for ticket in _plan(self._options).tickets]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        for batch in _door(self._options).split(partition.ticket):
            yield batch.select(self._columns)


class SluiceSource(DataSource):
    """What Spark knows as `sluice`."""

    @classmethod
    def name(cls) -> str:
        return "sluice"

    def _plain(self) -> dict[str, str]:
        return {key.lower(): value for key, value in dict(self.options).items()}

    def schema(self) -> StructType:
        """The service's schema of the table. Spark asks only when the reader was given none."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_plan(self._plain()).schema, prefer_timestamp_ntz=True)

    def reader(self, schema: StructType) -> SluiceReader:
        return SluiceReader(self._plain(), schema.fieldNames())

"""The rows of a table that wait in its quarantine: the lake differs from the source there as it is meant to, if the
source still has the row that waits. If it has another one, a change is missing in the lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdc_core.errors import LakeError
from cdc_core.rows.columns.batch import arrow_fields
from spark_jobs.expectations.quarantine import lacks
from spark_jobs.expectations.quarantine_table import QuarantineTable
from spark_jobs.lake.state import app_id
from spark_jobs.verify.lake_rows import as_fields
from spark_jobs.verify.row_text import lake_text
from spark_jobs.verify.standing import ComparedTable


@dataclass(frozen=True, slots=True)
class QuarantinedRows:
    """`texts`: by the text of its key, that of each row; None for a row of other columns than those that are
    compared."""

    texts: Mapping[bytes, bytes | None] = field(default_factory=dict)

    def explains(self, key: bytes, source: bytes | None, lake: Sequence[bytes]) -> bool:
        """Whether the key's row at the source waits, and the lake has one row or none instead."""
        return key in self.texts and source is not None and self.texts[key] in (None, source) and len(lake) <= 1


def waiting_rows(place: ComparedTable) -> QuarantinedRows:
    """Returns the rows that wait. Raises LakeError."""
    connector, schema = place.connector, place.schema
    quarantine = QuarantineTable(place.lake, connector.destination, schema.name)
    if not schema.primary_key or not quarantine.exists:
        return QuarantinedRows()
    epoch = connector.client_status().epoch
    app = app_id(connector.destination, connector.client_id, schema.name, epoch)
    state = place.lake.state(place.path, app)
    if state is None:
        raise LakeError("the table is gone", place=place.path, hint="Verify again.")
    rows = quarantine.read(state, epoch, app).rows
    names = [column.name for column in schema.shown]
    whole = set(names) <= set(rows.column_names)
    fields = [one for one in arrow_fields(schema) if whole or one.name in schema.primary_key]
    texts: dict[bytes, bytes | None] = {}
    for batch in rows.to_batches():
        there = as_fields(batch, fields)
        keys = lake_text(there, schema.primary_key).to_pylist()
        texts |= zip(keys, lake_text(there, names).to_pylist() if whole else [None] * len(keys), strict=True)
    lacking = zip([*texts], lacks(rows), strict=True)
    return QuarantinedRows(texts | {key: None for key, lacked in lacking if lacked.intersection(names)})

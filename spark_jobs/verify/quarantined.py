"""The keys of a table whose rows wait in its quarantine: the lake differs from the source there as it is meant to."""

from __future__ import annotations

from cdc_core.errors import LakeError
from spark_jobs.expectations.quarantine_table import QuarantineTable
from spark_jobs.lake.state import app_id
from spark_jobs.verify.row_text import lake_text
from spark_jobs.verify.standing import ComparedTable


def waiting_keys(place: ComparedTable) -> frozenset[bytes]:
    """Returns the text of each key that waits. Raises LakeError."""
    connector, schema = place.connector, place.schema
    quarantine = QuarantineTable(place.lake, connector.destination, schema.name)
    if not schema.primary_key or not quarantine.exists:
        return frozenset()
    epoch = connector.client_status().epoch
    app = app_id(connector.destination, connector.client_id, schema.name, epoch)
    state = place.lake.state(place.path, app)
    if state is None:
        raise LakeError("the table is gone", place=place.path, hint="Verify again.")
    rows = quarantine.read(state, epoch, app).rows
    batches = rows.select(list(schema.primary_key)).to_batches()
    return frozenset(text for batch in batches for text in lake_text(batch, schema.primary_key).to_pylist())

"""What a log's properties say of its rows: the definition that they have.

A log keeps the columns that the source dropped, so its own columns do not show which ones the table has now.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

import pyarrow as pa

from cdc_core.contract.claim import Claim
from cdc_core.errors import TableStopped
from cdc_core.schema.table import TableSchema
from spark_jobs.changes.columns import EPOCH, OP, VERSION
from spark_jobs.lake.record import epoch_property
from spark_jobs.lake.sql import quote
from spark_jobs.lake.state import PRIMARY_KEY

DEFINITION = "sluice.definition"
STATISTICS = "delta.dataSkippingStatsColumns"  # without it, Delta keeps those of the first 32 columns alone
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def log_properties(claim: Claim, schema: TableSchema) -> dict[str, str]:
    """Returns the properties that a log must have before it takes the claim's rows of the table: its rows that are not
    merged yet have this definition too."""
    described = {PRIMARY_KEY: json.dumps(list(schema.primary_key)), DEFINITION: json.dumps(schema.to_dict())}
    return described | epoch_property(claim)


def statistics(schema: TableSchema, columns: Iterable[pa.Field]) -> str:
    """Returns the columns of which a log keeps statistics: the columns by which its rows are found, and a key of one
    column, if its name needs no quotes. Without a key: whether rows were inserted alone. `columns` are the log's. After
    a struct of which no field is named, such as a GEOMETRY's, delta-rs 1.6 shows no statistics at all."""
    key = schema.primary_key if len(schema.primary_key) == 1 and _PLAIN.fullmatch(schema.primary_key[0]) else ()
    structs = [f"{quote(one.name)}.{quote(one.type.field(0).name)}" for one in columns if pa.types.is_struct(one.type)]
    return ",".join([EPOCH, VERSION, *(key if schema.primary_key else [OP]), *structs])


def has_key(properties: Mapping[str, str]) -> bool:
    """Whether the rows of a log have a primary key, as of its last append."""
    return bool(json.loads(properties.get(PRIMARY_KEY, '["?"]')))


def definition_of(properties: Mapping[str, str], place: str) -> TableSchema:
    """Returns the definition of the rows. Raises TableStopped for a log that does not have it."""
    text = properties.get(DEFINITION)
    if text is None:
        hint = "Reload the table (sluice copy)."
        raise TableStopped("the change log does not have the definition of its rows", place=place, hint=hint)
    return TableSchema.from_dict({name: value for name, value in json.loads(text).items() if name != "version"})

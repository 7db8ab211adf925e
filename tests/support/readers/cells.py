"""Reads tables with one program, and prints each table's rows, or why it cannot read it, as JSON. The environment of
the readers runs this file by itself: it imports nothing of the project."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa


def by_delta_rs(path: str) -> pa.Table:
    from deltalake import DeltaTable

    return DeltaTable(path).to_pyarrow_table()


def by_query_builder(path: str) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder

    return pa.table(QueryBuilder().register("lake", DeltaTable(path)).execute("SELECT * FROM lake").read_all())


def by_pandas(path: str) -> pa.Table:
    """Integers with NULL are floats in pandas: they are cast back."""
    from deltalake import DeltaTable

    table = DeltaTable(path)
    schema = pa.schema(table.schema().to_arrow())
    return pa.Table.from_pandas(table.to_pandas(), preserve_index=False).select(schema.names).cast(schema)


def by_polars(path: str) -> pa.Table:
    import polars

    return polars.scan_delta(path).collect().to_arrow()


def by_duckdb(path: str) -> pa.Table:
    import duckdb
    import duckdb_extension_delta

    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension"))
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.load_extension(str(extension))
        return connection.execute("SELECT * FROM delta_scan(?)", [path]).to_arrow_table()


def by_daft(path: str) -> pa.Table:
    import daft

    return daft.read_deltalake(path).to_arrow()


READERS: dict[str, Callable[[str], pa.Table]] = {
    "delta-rs": by_delta_rs,
    "QueryBuilder": by_query_builder,
    "pandas": by_pandas,
    "Polars": by_polars,
    "DuckDB": by_duckdb,
    "Daft": by_daft,
}


def rows_of(table: pa.Table) -> list[str]:
    """Returns the rows as texts, sorted, that are the same for each reader that reads the same values."""
    listed = [[text_of(value) for value in _plain(column).to_pylist()] for column in table.columns]
    return sorted(json.dumps(dict(zip(table.column_names, row, strict=True))) for row in zip(*listed, strict=True))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz))
    return column


def text_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: text_of(one) for name, one in value.items()}
    if isinstance(value, list):
        return [text_of(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        digits = f"{value:f}"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None else repr(value)


def main(reader: str, paths: list[str]) -> None:
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        try:
            found[path] = {"rows": rows_of(READERS[reader](path))}
        except BaseException as error:  # a panic of Rust is no Exception
            found[path] = {"error": f"{type(error).__name__}: {error}"[:1000]}
    print(json.dumps(found), flush=True)
    os._exit(0)  # a reader's threads may abort the process at its end


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

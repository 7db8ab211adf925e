"""The assets of one destination: MySQL's tables, the store that holds their changes, and the Delta tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from cdc_core.errors import SchemaError, TableStopped
from cdc_core.schema.names import split_name
from cdc_core.schema.table import TableSchema
from orchestration.assets.metadata import COLUMN_LINEAGE, column_lineage, lake_columns, source_columns
from orchestration.names import UNION
from orchestration.settings import Settings

Schemas = Mapping[str, TableSchema | None]  # by table; None if only the name is known


def declared(settings: Settings, known: Sequence[TableSchema]) -> Schemas:
    """Returns the tables to make assets of: the listed ones, or all that the service captures."""
    schemas = {schema.name: schema for schema in known}
    return {name: schemas.get(name) for name in settings.tables or sorted(schemas)}


def external_assets(settings: Settings, tables: Schemas) -> list[dg.AssetSpec]:
    """Returns the assets that no run makes: MySQL's tables, and the store that holds their changes."""
    names = settings.names
    sources = [_source(settings, table, schema) for table, schema in tables.items()]
    store = spec_of(
        settings,
        names.store,
        {"canal"},
        f"Changes of {settings.destination} waiting to be claimed. Observed by cdc_{names.safe}_backlog.",
        {"service": _service(settings), "client_id": settings.client_id},
        deps=[spec.key for spec in sources],
    )
    return [*sources, store]


def union_assets(settings: Settings, tables: Sequence[str]) -> list[dg.AssetSpec]:
    """Returns the assets of the tables of the lake that have the rows of several of these."""
    names, specs = settings.names, list[dg.AssetSpec]()
    for union in settings.unions.all:
        shards = [one for one in tables if union in settings.unions.among([one])]
        if not shards:
            continue
        spec = spec_of(
            settings,
            names.delta(union.table),
            {"delta"},
            f"The rows of {len(shards)} tables, each with its own {' and '.join(union.partitions)}.",
            {**stored(settings, union.table, settings.paths.path(*split_name(union.table))), UNION: union.table},
            table=union.table,
            deps=[names.delta(shard) for shard in shards],
        )
        specs.append(spec)
    return specs


def spec_of(
    settings: Settings,
    key: dg.AssetKey,
    kinds: set[str],
    description: str,
    metadata: Mapping[str, Any],
    table: str | None = None,
    **more: Any,
) -> dg.AssetSpec:
    """An asset of the destination, with its group, owners and tags; one of a `table` is in the group of its
    database."""
    return dg.AssetSpec(
        key,
        group_name=settings.group or (settings.names.group(table) if table else settings.names.safe),
        kinds=kinds,
        owners=settings.owners,
        tags={**settings.tags, "cdc/destination": settings.names.safe},
        description=description,
        metadata=metadata,
        **more,
    )


def delta_spec(settings: Settings, table: str, schema: TableSchema | None) -> dg.AssetSpec:
    """Returns the asset of one Delta table, with its columns if the schema is known."""
    names = settings.names
    known, trouble = _lake_columns(settings, schema)
    key = f"one row per {', '.join(schema.primary_key)}" if schema and schema.primary_key else "the source's rows"
    return spec_of(
        settings,
        names.delta(table),
        {"delta", "spark"},
        f"{_comment(schema)}{table} as of the last acked batch: {key}, each change applied exactly once.{trouble}",
        {**stored(settings, table, settings.paths.path(*split_name(table))), **known},
        table=table,
        deps=[names.store, names.source(table)],
        skippable=True,
    )


def stored(settings: Settings, table: str, path: str) -> dict[str, Any]:
    """The metadata of a Delta table: its name, in the catalog if it has one there, and where it is, also as a URI."""
    rules = settings.catalog_rules
    name = str(rules.name(settings.destination, *split_name(table))) if rules else table
    uri = path if "://" in path else Path(path).absolute().as_uri()
    kind = {"dagster/table_name": name, "dagster/storage_kind": "delta", "dagster/uri": uri}
    return {**kind, "path": dg.MetadataValue.path(path)}


def merged_spec(settings: Settings, table: str, schema: TableSchema | None) -> dg.AssetSpec:
    """A Delta table that follows its change log."""
    spec = delta_spec(settings, table, schema)
    key = f"one row per {', '.join(schema.primary_key)}" if schema and schema.primary_key else "the source's rows"
    view = f"`{table}__now` is the table as of the end of its log."
    text = f"{_comment(schema)}{table} as of its last merge: {key}, each change applied exactly once. {view}"
    return spec.replace_attributes(deps=[settings.names.log(table)], description=text)


def history_spec(settings: Settings, table: str, schema: TableSchema | None) -> dg.AssetSpec:
    """The history of a table, which follows the same log."""
    spec = delta_spec(settings, table, schema)
    text = (
        f"{_comment(schema)}Every version of each row of {table}, from the change log: since when, until when, and "
        "whether it is the present one."
    )
    known = {key: value for key, value in spec.metadata.items() if key not in ("dagster/column_schema", COLUMN_LINEAGE)}
    place = stored(settings, f"{table}__history", settings.paths.history_path(*split_name(table)))
    return spec.replace_attributes(
        key=settings.names.history(table),
        deps=[settings.names.log(table), settings.names.delta(table)],
        description=text,
        metadata=known | place,
    )


def _lake_columns(
    settings: Settings, schema: TableSchema | None
) -> tuple[dict[str, dg.TableSchema | dg.TableColumnLineage], str]:
    """The metadata of a Delta table's columns, and why there are none: the table then stops when its rows come."""
    try:
        if schema is None:
            return {}, ""
        if schema.defect:
            raise TableStopped(schema.defect.reason, place=schema.name, hint=schema.defect.hint)
        own = settings.row_rules.of(schema.name)
        own.check(schema.name, schema.primary_key, [column.name for column in schema.shown])
        lineage = column_lineage(schema, settings.names.source(schema.name))
        return {"dagster/column_schema": lake_columns(schema), COLUMN_LINEAGE: lineage}, ""
    except (SchemaError, TableStopped) as error:
        return {}, f"\n\n**It cannot be in the lake:** {error.message} at {error.place}. {error.hint}"


def _source(settings: Settings, table: str, schema: TableSchema | None) -> dg.AssetSpec:
    known = {"dagster/column_schema": source_columns(schema)} if schema else {}
    metadata = {"dagster/table_name": table, "dagster/storage_kind": "mysql", **known}
    text = _comment(schema) or f"{table} in MySQL."
    return spec_of(settings, settings.names.source(table), {"mysql"}, text, metadata, table)


def _service(settings: Settings) -> dg.MetadataValue:
    place = settings.service.place
    return dg.MetadataValue.text(place) if settings.service.zookeeper else dg.MetadataValue.url(place)


def _comment(schema: TableSchema | None) -> str:
    """The source's comment on the table, "" without one."""
    return f"{schema.comment}\n\n" if schema and schema.comment else ""

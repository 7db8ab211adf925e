"""Tables that would share a folder of the lake: refused when the definitions are loaded, where that is known."""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from cdc_core.errors import ConfigError
from spark_jobs.lake.tables import Lake

Paths = dict[str, tuple[str, str]]
"""By a table's folder, whatever its case: its asset, and the folder itself."""


def check_paths(definitions: dg.Definitions, place: str, others: Paths) -> Paths:
    """The folders of the Delta tables of a destination, beside those of the `others`. Raises ConfigError for two tables
    of one folder: of two destinations that share a lake, or of names that differ only in case where the lake's store
    ignores it."""
    own: Paths = {}
    for spec in _specs(definitions):
        if spec.metadata.get("dagster/storage_kind") != "delta":
            continue
        table, path = spec.key.to_user_string(), str(spec.metadata["path"].value)
        other, there = others.get(path.casefold()) or own.setdefault(path.casefold(), (table, path))
        if other != table and (there == path or Lake(path.rsplit("/", 2)[0]).ignores_case()):
            hint = "Leave one out (canal.instance.filter.black.regex, or `tables` in defs.yaml), or use two lakes."
            raise ConfigError(f"{other} and {table} would share a folder of the lake: {path}", place=place, hint=hint)
    return own


def _specs(definitions: dg.Definitions) -> Iterable[dg.AssetSpec]:
    for asset in definitions.assets or ():
        if isinstance(asset, dg.AssetsDefinition):
            yield from asset.specs

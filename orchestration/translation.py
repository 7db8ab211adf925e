"""`translation` in defs.yaml: keys and other attributes of the lake's tables in Dagster, as its own components take it.

A key is made of the table's name alone, here and nowhere else: definitions, events, checks and sensors ask for it by
`orchestration.names`. The other attributes are only those of definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import dagster as dg
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver

from cdc_core.errors import ConfigError

_PLACE = "translation"
_HINT = "Let `key` have {{ database }} and {{ table }}, or leave it out."


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table of the lake, as templates know it. `database` and `table` are parts of an asset key; a change log's
    `table` is `orders__log`. `name`: as people write it."""

    destination: str
    database: str
    table: str
    kind: Literal["table", "log", "history"]
    name: str


def _variables(table: LakeTable) -> Mapping[str, Any]:
    known = ("destination", "database", "table", "kind")
    return {name: getattr(table, name) for name in known}


Translate = Annotated[TranslationFn[LakeTable], TranslationFnResolver[LakeTable](_variables)]
"""The type of `translation` in a component."""


@dataclass(slots=True)
class Translation:
    """Translates the assets of one destination, and knows whose they are. Can be called as the function in it."""

    translate: Callable[[dg.AssetSpec, LakeTable], dg.AssetSpec]
    _keys: dict[LakeTable, tuple[dg.AssetKey, dg.AssetKey]] = field(default_factory=dict)
    _tables: dict[dg.AssetKey, LakeTable] = field(default_factory=dict)

    def __call__(self, spec: dg.AssetSpec, table: LakeTable) -> dg.AssetSpec:
        return self.translate(spec, table)

    def key(self, plain: dg.AssetKey, table: LakeTable) -> dg.AssetKey:
        """Returns the key of a table whose key is `plain` without a translation."""
        found = self._keys.get(table)
        if found is None:
            key = self._translated(dg.AssetSpec(plain), table).key
            found = self._keys[table] = plain, key
            self._tables.setdefault(key, table)
        return found[1]

    def table(self, key: dg.AssetKey) -> LakeTable | None:
        """Returns the table that has this key, None if none was asked for that has it."""
        return self._tables.get(key)

    def check_apart(self) -> None:
        """Raises ConfigError if two tables that were asked for have one key, or one has a part without a name."""
        tables: dict[dg.AssetKey, str] = {}
        for table, (_, key) in self._keys.items():
            text = key.to_user_string()
            if not all(key.path):
                raise ConfigError(
                    f"{table.name} would be {text!r}, with a part that is empty", place=_PLACE, hint=_HINT
                )
            if other := tables.get(key):
                raise ConfigError(f"{other} and {table.name} would be one asset, {text}", place=_PLACE, hint=_HINT)
            tables[key] = table.name

    def spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Returns the asset with what the translation says, or as it is if no table has it. Raises ConfigError for what
        cannot be."""
        table = self._tables.get(spec.key)
        if table is None:
            return spec
        found = self._translated(spec.replace_attributes(key=self._keys[table][0]), table)
        if found.partitions_def is not None:
            hint = "Leave `partitions_def` out: a run changes rows anywhere in a table."
            raise ConfigError(f"{table.name} would have partitions", place=_PLACE, hint=hint)
        deps = [*spec.deps, *(one for one in found.deps if one not in spec.deps)]
        return found.replace_attributes(key=spec.key, deps=deps, skippable=True)

    def _translated(self, spec: dg.AssetSpec, table: LakeTable) -> dg.AssetSpec:
        try:
            return self.translate(spec, table)
        except Exception as error:  # whatever a template, or a function of the user's, raises
            first = (str(error).strip() or type(error).__name__).splitlines()[-1]
            hint = "Correct `translation` in defs.yaml: docs/dagster.md shows what it may say."
            raise ConfigError(f"{table.name}: {first}", place=_PLACE, hint=hint) from error

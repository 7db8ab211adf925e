"""A union's name where tables are named: its shards are meant, or the error says which to name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cdc_core.errors import ConfigError
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union
from spark_jobs.union.shards import shard_names

_SHOWN = 5  # shards that an error names
_PAGE = "docs/unions.md has what is done by shards."


def with_shards(lake: Lake, tables: Sequence[str], captured: Callable[[], Iterable[str]] = tuple) -> list[str]:
    """Returns the tables, and in the place of each union its shards: those that the lake has and that the source has as
    far as the lake knows, and those of the `captured` tables. Raises ConfigError for a union without shards."""
    found = dict[str, None]()
    for table in tables:
        union = _union(lake, table)
        found |= dict.fromkeys([table] if union is None else _some_shards(lake, union, captured))
    return list(found)


def check_no_union(lake: Lake, tables: Iterable[str]) -> None:
    """Raises ConfigError for a union, which names its shards."""
    for table in tables:
        if union := _union(lake, table):
            shards = _shards(lake, union, tuple)
            message = f"it is a union of {len(shards)} tables of the source, and this is done to one of them"
            more = f" and {len(shards) - _SHOWN} more" if len(shards) > _SHOWN else ""
            hint = f"Name a shard: {', '.join(shards[:_SHOWN])}{more}. " if shards else ""
            raise ConfigError(message, place=table, hint=f"{hint}{_PAGE}")


def _union(lake: Lake, table: str) -> Union | None:
    return next((one for one in lake.unions.all if one.table == table), None)


def _some_shards(lake: Lake, union: Union, captured: Callable[[], Iterable[str]]) -> list[str]:
    found = _shards(lake, union, captured)
    if not found:
        hint = f"No table that the lake has, or that is captured, fits {union.pattern!r}: correct `into` in defs.yaml."
        raise ConfigError("it is a union without a table", place=union.table, hint=f"{hint} {_PAGE}")
    return found


def _shards(lake: Lake, union: Union, captured: Callable[[], Iterable[str]]) -> list[str]:
    there = {name for name in shard_names(lake, union) if lake.is_live(name)}
    return sorted(there | {name for name in captured() if union in lake.unions.among([name])})

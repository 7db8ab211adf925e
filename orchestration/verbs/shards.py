"""What an order means that names a union: it is done to all shards, or refused, where it is for one table."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_core.errors import SluiceError
from orchestration.verbs.access import Access
from spark_jobs.union.named import check_no_union, with_shards


def shards_meant(at: Access, tables: Sequence[str], *, several: bool) -> list[str]:
    """Returns the tables that are meant: with `several`, the shards of each union among them. Raises ConfigError for a
    union where one table is meant, and for one without shards."""
    lake = at.known_lake
    if lake is None or not lake.unions or not tables:
        return list(tables)
    if several:
        return with_shards(lake, tables, lambda: _captured(at))
    check_no_union(lake, tables)
    return list(tables)


def _captured(at: Access) -> list[str]:
    """Returns the captured tables; none where the service does not answer: a verb that needs it says so."""
    try:
        with at.connect() as connector:
            return [one.name for one in connector.tables()]
    except SluiceError:
        return []

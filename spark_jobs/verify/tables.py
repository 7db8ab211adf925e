"""Several tables of one client, each compared in its way: beside the stream where checksums can tell, the rest at rest.

A table whose rows differ comes with the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from spark_jobs.lake.remedy import copy_hint, repair_hint
from spark_jobs.verify.beside import Beside
from spark_jobs.verify.verify import Reader, Verified, verify


def compared(
    beside: Beside, tables: Iterable[tuple[str, str]], besides: Iterable[tuple[str, str]] = ()
) -> Iterator[Verified]:
    """Those that checksums can compare come first. `besides`: tables of the lake that the source should have.

    Raises LakeError when the lake does not reach the source's present end in time.
    """
    connector, rest, besides = beside.connector, list[tuple[str, str]](), list(besides)
    for database, table in tables:
        found = beside.table(database, table)
        if found is None:
            rest.append((database, table))
        else:
            yield _with_remedy(connector.destination, found, by_key=True)
    if not rest and not besides:
        return
    epoch = connector.client_status().epoch
    reader = Reader(connector.destination, connector.client_id, epoch, lambda: connector.client_status().cursor)
    left = verify(beside.source, rest, beside.lake, reader, besides=besides, timeout_seconds=beside.timeout_seconds)
    for found in left:
        yield _with_remedy(connector.destination, found, by_key=False)


def _with_remedy(destination: str, found: Verified, *, by_key: bool) -> Verified:
    """Rows of a table that checksums compared can be repaired. Any other table is made anew."""
    if found.comparison is None or not found.differences:
        return found
    repairable = by_key and not found.definition
    hint = repair_hint if repairable else copy_hint
    return replace(found, remedy=hint(destination, found.table), repairable=repairable)

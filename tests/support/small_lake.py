"""A lake that delta-rs writes, without Spark: tables as a copy would make them, and claims merged by key."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_core.position import EntryPosition
from cdc_core.rows.system_columns import COUNT, OP
from spark_jobs.lake.record import FORM, PROGRESS
from spark_jobs.lake.state import DESTINATION, TABLE, app_id
from spark_jobs.load.view import Opened, opened
from spark_jobs.snapshot.reading import read_rows
from spark_jobs.snapshot.source import Source
from spark_jobs.verify.comparer import TableComparer
from spark_jobs.verify.verified import Verified
from tests.support.shop import Shop


def briefly(_: float) -> None:
    """In the place of a sleep of any length."""
    time.sleep(0.1)


def source_of(shop: Shop) -> Source:
    return Source(shop.mysql.host, shop.mysql.port, shop.mysql.user, shop.mysql.password)


def found_beside(shop: Shop, table: str, seconds: float = 600) -> Verified:
    """What the comparison finds that `sluice verify` makes."""
    beside = TableComparer(shop.connector, source_of(shop), shop.lake.lake, timeout_seconds=seconds, sleep=briefly)
    return beside.table(shop.database, table)


def app_of(shop: Shop, table: str) -> str:
    connector = shop.connector
    epoch = connector.client_status().epoch
    return app_id(connector.destination, connector.client_id, f"{shop.database}.{table}", epoch)


def brought(shop: Shop, table: str, *, as_text: bool = False) -> str:
    """The table's rows, in the lake; what waits of them is acked. Returns the table's path."""
    with opened(source_of(shop), shop.database, table, as_text=as_text, sleep=lambda _: None) as there:
        assert isinstance(there, Opened)
        rows = pa.Table.from_batches(read_rows(there.connection, there.schema, "string" if as_text else "null"))
    path = shop.lake.lake.path(shop.database, table)
    name = f"{shop.database}.{table}"
    write_deltalake(path, rows)
    ours = {DESTINATION: "shop", TABLE: name, PROGRESS: FORM}
    DeltaTable(path).alter.set_table_properties(ours, raise_if_not_exists=False)
    end = EntryPosition(*shop.mysql.position())
    while not shop.reached(end):
        with shop.connector.claim(100_000, owner="bring", timeout_seconds=1):
            pass
    return path


def merged(shop: Shop, table: str) -> bool:
    """One claim's changes of a table, in one commit. False where nothing waits."""
    name, path = f"{shop.database}.{table}", shop.lake.lake.path(shop.database, table)
    with shop.connector.claim(200, owner="merge", timeout_seconds=0.1) as claim:
        if claim is None:
            return False
        rows = shop.connector.changes(claim, name).read_all()
        there = DeltaTable(path)
        key = next(one.schema.primary_key for one in claim.tables if one.name == name)
        columns = {column: f"s.`{column}`" for column in there.schema().to_arrow().names}
        noted = CommitProperties(app_transactions=[Transaction(app_of(shop, table), claim.end.version())])
        if not key:
            write_deltalake(path, _copies(there.to_pyarrow_table(), rows), mode="overwrite", commit_properties=noted)
            return True
        (
            there.merge(rows, " AND ".join(f"t.`{one}` = s.`{one}`" for one in key), "s", "t", commit_properties=noted)
            .when_matched_delete(f"s.`{OP}` = 2")
            .when_matched_update(columns)
            .when_not_matched_insert(columns, f"s.`{OP}` = 1")
            .execute()
        )
        return True


def _copies(there: pa.Table, changes: pa.Table) -> pa.Table:
    """The rows of a table without a key after net changes, each of which says how often it comes or goes."""
    names = there.column_names
    counts = Counter(zip(*there.to_pydict().values(), strict=True))
    for times, *row in zip(*changes.select([COUNT, *names]).to_pydict().values(), strict=True):
        counts[tuple(row)] += times
    assert min(counts.values(), default=0) >= 0
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in counts.elements()], there.schema)


@contextmanager
def busy(*works: Callable[[], object]) -> Iterator[None]:
    """Does each work again and again, in a thread of its own, while the block runs. Raises what a work raised."""
    ended, errors = threading.Event(), list[BaseException]()

    def repeat(work: Callable[[], object]) -> None:
        try:
            while not ended.is_set():
                work()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]

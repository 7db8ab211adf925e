"""`audit`: compares a table by checksums that both sides compute, while others write and drain.

Only rows whose buckets differ are looked at. They are looked up by key, at the source by an index, while the lake
stands still for a moment. If rows have no key or many differ, whole buckets of a snapshot of the source and of a
version of the lake are compared (`standing` has both). Either way the changes between the two places count, so writers
need not pause.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from deltalake import DeltaTable

from cdc_core.position import EntryPosition
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import spark_type
from spark_jobs.snapshot.binlog import changes, position
from spark_jobs.snapshot.place import NoRest
from spark_jobs.verify.candidates import SourceSide, candidates, rows_about
from spark_jobs.verify.counts import LakeSide, counted
from spark_jobs.verify.definition import holds
from spark_jobs.verify.lake_rows import lake_rows, rows_in, rows_of_keys
from spark_jobs.verify.quarantined import waiting_rows
from spark_jobs.verify.standing import ComparedTable, ExpectedRows, Moving, Pinned
from spark_jobs.verify.sums import buckets_for
from spark_jobs.verify.verified import Comparison

_AT_ONCE = 20_000  # keys that are looked at while a claim is held
_TRANSACTIONS = """
    SELECT e.transactions FROM information_schema.engines e JOIN information_schema.tables t ON t.engine = e.engine
    WHERE t.table_schema = %s AND t.table_name = %s"""
_DATES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class Differences:
    """How many rows are `missing` from the lake, `extra` there, or `different`. `wrong` are rows of the lake whose key
    has another row or no row, one for each key; `right` are the rows that the lake must have. `on_purpose`: by
    correction, how many rows it made different; `quarantined`: keys whose rows wait. These are no differences."""

    missing: int = 0
    extra: int = 0
    different: int = 0
    wrong: tuple[pa.RecordBatch, ...] = ()
    right: tuple[pa.RecordBatch, ...] = ()
    on_purpose: Mapping[str, int] = field(default_factory=dict)
    quarantined: int = 0

    def __bool__(self) -> bool:
        return self.rows > 0

    @property
    def rows(self) -> int:
        return self.missing + self.extra + self.different


@dataclass(frozen=True, slots=True)
class Audited:
    """`place`: the lake's place when the rows that differ were looked at; None if no row was. `settled`: the number of
    rows that differed and no longer do; the comparison is without them. `by_key`: its rows can be settled.
    `on_purpose`: as of `Differences`."""

    comparison: Comparison
    place: EntryPosition | None
    settled: int = 0
    by_key: bool = False
    on_purpose: Mapping[str, int] = field(default_factory=dict)


Settle = Callable[[ExpectedRows, Differences], bool]
"""Called while the lake stands still; returns whether the rows are right now."""


def leave(_standing: ExpectedRows, _differences: Differences) -> bool:
    """Leaves the differences as they are."""
    return False


def shared(schema: TableSchema, state: TableState) -> TableSchema | None:
    """Returns the definition by which both sides can be compared: its columns that the lake has in a type of the same
    family. Dates are text if the lake has them as text and no rule says what they are. None if no column is left;
    without its key if that is not whole."""
    there = {column.name: column.type for column in state.columns}
    kinds = {field.name: spark_type(field.type) for field in arrow_fields(schema)}
    ruled = {column.name for column in schema.columns if column.cast}
    texts = {n for n, kind in kinds.items() if kind in _DATES and there.get(n) == "string" and n not in ruled}
    columns = tuple(replace(c, as_text=True) if c.name in texts else c for c in schema.columns)
    names = {
        name
        for name, kind in kinds.items()
        if name in texts or (name in there and (holds(there[name], kind) or holds(kind, there[name])))
    }
    columns = tuple(column for column in columns if column.hidden or column.name in names)
    key = schema.primary_key if names.issuperset(schema.primary_key) else ()
    return replace(schema, columns=columns, primary_key=key) if names else None


def is_whole(schema: TableSchema, state: TableState) -> bool:
    """Whether the lake has the columns of a definition and no other, in types that hold the source's values."""
    there = {column.name: column.type for column in state.columns}
    ours = {field.name: spark_type(field.type) for field in arrow_fields(schema)}
    return ours.keys() == there.keys() and all(holds(there[name], kind) for name, kind in ours.items())


def audit(
    place: ComparedTable,
    table: DeltaTable,
    *,
    settle: Settle = leave,
    in_time: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> Audited:
    """Compares the lake's `table` with its source. `settle` is called with the differences of a table with a key.

    Raises Moving when nothing is certain in time, LakeError when too much differs, and what `ComparedTable.standing`
    and `ComparedTable.pinned` raise.
    """
    found = candidates(place.source, place.schema, table, place.zero_dates)
    if found.keys is None:
        return _by_buckets(place, in_time, sleep)
    missing = extra = different = settled = held = 0
    lake_rows = found.lake_rows
    at: EntryPosition | None = None
    purposely = Counter[str]()
    for part in _parts(found.keys):
        for one, right, stood in _looked_at(place, part, settle, in_time, sleep):
            at = stood
            purposely.update(one.on_purpose)
            held += one.quarantined
            if right:
                settled, lake_rows = settled + one.rows, lake_rows + one.missing - one.extra
                continue
            missing, extra, different = missing + one.missing, extra + one.extra, different + one.different
    comparison = Comparison(found.source_rows, lake_rows, missing, extra, different, held)
    return Audited(comparison, at, settled, by_key=bool(place.schema.primary_key), on_purpose=purposely)


def _by_buckets(place: ComparedTable, in_time: Callable[[], bool], sleep: Callable[[float], None]) -> Audited:
    """Compares all rows of the buckets that differ, at one place."""
    while True:
        try:
            with place.pinned(sleep) as there:
                source = SourceSide(there.connection, place.schema, place.zero_dates)
                lake = LakeSide(there.table, arrow_fields(place.schema), place.schema.primary_key)
                rows = max(rows_in(there.table), rows_about(there.connection, place.schema))
                found = counted(source, lake, buckets_for(rows), there.since, place.schema.name)
                if (found.missing or found.extra or found.different) and _is_written(there, place.schema):
                    hint = "Verify again while nobody writes it, or give it an engine with transactions."
                    raise Moving("the table was written while it was read", place=place.schema.name, hint=hint)
                return Audited(found, there.place)
        except (Moving, NoRest):
            if not in_time():
                raise
            sleep(3.0)  # the drain's turn


def _is_written(there: Pinned, schema: TableSchema) -> bool:
    """Whether a table that no snapshot holds still, as of MyISAM, may have been written since."""
    with there.connection.cursor() as cursor:
        cursor.execute(_TRANSACTIONS, (schema.database, schema.table))
        (transactions,) = cursor.fetchone() or ("",)
    if str(transactions) == "YES":
        return False
    return changes(there.connection, schema.database, schema.table, there.end, position(there.connection))


def _parts(keys: tuple[bytes, ...]) -> Iterator[tuple[bytes, ...]]:
    for number in range(0, len(keys), _AT_ONCE):
        yield keys[number : number + _AT_ONCE]


def _looked_at(
    place: ComparedTable,
    keys: tuple[bytes, ...],
    settle: Settle,
    in_time: Callable[[], bool],
    sleep: Callable[[float], None],
) -> Iterator[tuple[Differences, bool, EntryPosition]]:
    """Looks at the keys until each is decided; yields the differences, whether they are settled, and the lake's
    place."""
    while keys:
        try:
            with place.standing(keys, sleep) as standing:
                decided = [key for key in keys if key not in standing.undecided]
                differences = differing(place, standing, decided)
                right = bool(differences) and settle(standing, differences)
        except (Moving, NoRest):
            if not in_time():
                raise
            sleep(1.0)
            continue
        yield differences, right, standing.place
        keys = tuple(key for key in keys if key in standing.undecided)
        if keys and not in_time():
            hint = "Verify again when the lake has caught up with the reset."
            raise Moving("the source's rows are read again after a reset", place=place.schema.name, hint=hint)


def differing(place: ComparedTable, standing: ExpectedRows, keys: Iterable[bytes]) -> Differences:
    """Returns the differences in the lake's present version. If it has several rows of a key, one is compared, and the
    others are extra."""
    table = place.lake.open(place.path, standing.state.version)
    there = rows_of_keys(lake_rows(table, arrow_fields(place.schema)), place.schema, list(standing.rows))
    missing = extra = different = held = 0
    purposes, purposely, waiting = place.purposes(), Counter[str](), waiting_rows(place)
    wrong, right = list[pa.RecordBatch](), list[pa.RecordBatch]()
    for key in keys:
        row, rows = standing.rows[key], there.get(key, [])
        if len(rows) == (row is not None) and all(row is not None and text == row.text for text, _ in rows):
            continue
        if by := purposes.by(key, row.text if row else None, [text for text, _ in rows]):
            purposely[by] += 1
            continue
        if waiting.explains(key, row.text if row else None, [text for text, _ in rows]):
            held += 1
            continue
        missing += row is not None and not rows
        different += row is not None and bool(rows) and all(text != row.text for text, _ in rows)
        extra += max(0, len(rows) - (row is not None))
        wrong += [one for _, one in rows[:1]]
        right += [row.row] if row is not None else []
    return Differences(missing, extra, different, tuple(wrong), tuple(right), purposely, held)

"""`audit`: a table with a key compared by checksums that both sides compute, while others write and drain.

Only the keys whose buckets differ are looked at by their rows: at the source by an index, and what the lake must have
of them at the place where it stands (`standing`). A difference that is told is one; nothing has to rest for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from deltalake import DeltaTable

from cdc_core.position import EntryPosition
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.schema.table import TableSchema
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import spark_type
from spark_jobs.verify.candidates import candidates
from spark_jobs.verify.compare import Comparison
from spark_jobs.verify.definition import holds
from spark_jobs.verify.keys import has_null
from spark_jobs.verify.lake_rows import lake_rows, rows_of_keys
from spark_jobs.verify.standing import Moving, Place, Standing

_AT_ONCE = 20_000  # keys that are looked at while a claim is held
_DATES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class Differences:
    """How many rows are `missing` from the lake, `extra` there, or `different`. `wrong` are rows of the lake whose key
    has another row or none, one for each key; `right` those that it must have."""

    missing: int = 0
    extra: int = 0
    different: int = 0
    wrong: tuple[pa.RecordBatch, ...] = ()
    right: tuple[pa.RecordBatch, ...] = ()

    def __bool__(self) -> bool:
        return self.rows > 0

    @property
    def rows(self) -> int:
        return self.missing + self.extra + self.different


@dataclass(frozen=True, slots=True)
class Audited:
    """`place`: where the lake stood when the rows that differ were looked at; None when no row was. `settled`: so many
    rows differed and do not any more; the comparison is without them."""

    comparison: Comparison
    place: EntryPosition | None
    settled: int = 0


Settle = Callable[[Standing, Differences], bool]
"""Is called while the lake stands. Whether the rows are right now."""


def leave(_standing: Standing, _differences: Differences) -> bool:
    """What differs stays as it is."""
    return False


def as_the_lake_has(schema: TableSchema, state: TableState) -> TableSchema | None:
    """The definition by which both sides can be compared by checksums: dates are text where the lake has them so. None
    where there is no key, or the lake's columns do not hold the source's values."""
    there = {column.name: column.type for column in state.columns}
    texts = {
        field.name
        for field in arrow_fields(schema)
        if spark_type(field.type) in _DATES and there.get(field.name) == "string"
    }
    columns = tuple(replace(c, as_text=True) if c.name in texts else c for c in schema.columns)
    found = replace(schema, columns=columns)
    ours = {field.name: spark_type(field.type) for field in arrow_fields(found)}
    if not schema.primary_key or ours.keys() != there.keys():
        return None
    return found if all(holds(there[name], kind) for name, kind in ours.items()) else None


def audit(
    place: Place,
    table: DeltaTable,
    *,
    settle: Settle = leave,
    in_time: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> Audited | None:
    """Compares the lake's `table` with its source. `settle` is called with what differs.

    None where keys cannot be told: zero dates in them. Raises TooMany, Moving when nothing is certain in time, and
    what `Place.standing` raises.
    """
    found = candidates(place.source, place.schema, table)
    if any(has_null(place.schema, key) for key in found.keys):
        return None
    missing = extra = different = settled = 0
    lake_rows = found.lake_rows
    at: EntryPosition | None = None
    for part in _parts(found.keys):
        for one, right, stood in _looked_at(place, part, settle, in_time, sleep):
            at = stood
            if right:
                settled, lake_rows = settled + one.rows, lake_rows + one.missing - one.extra
                continue
            missing, extra, different = missing + one.missing, extra + one.extra, different + one.different
    return Audited(Comparison(found.source_rows, lake_rows, missing, extra, different), at, settled)


def _parts(keys: tuple[bytes, ...]) -> Iterator[tuple[bytes, ...]]:
    for number in range(0, len(keys), _AT_ONCE):
        yield keys[number : number + _AT_ONCE]


def _looked_at(
    place: Place,
    keys: tuple[bytes, ...],
    settle: Settle,
    in_time: Callable[[], bool],
    sleep: Callable[[float], None],
) -> Iterator[tuple[Differences, bool, EntryPosition]]:
    """Until each key is decided: what differed, whether it is right now, and where the lake stood."""
    while keys:
        try:
            with place.standing(keys, sleep) as standing:
                decided = [key for key in keys if key not in standing.undecided]
                differences = differing(place, standing, decided)
                right = bool(differences) and settle(standing, differences)
        except Moving:
            if not in_time():
                raise
            sleep(1.0)
            continue
        yield differences, right, standing.place
        keys = tuple(key for key in keys if key in standing.undecided)
        if keys and not in_time():
            hint = "Verify again when the lake has caught up with the reset."
            raise Moving("rows come again that the lake has", place=place.schema.name, hint=hint)


def differing(place: Place, standing: Standing, keys: Iterable[bytes]) -> Differences:
    """What differs in the version of the lake that stands. Of a key that it has several times one row is compared, the
    others are extra."""
    table = place.lake.open(place.path, standing.state.version)
    there = rows_of_keys(lake_rows(table, place.schema), place.schema, list(standing.rows))
    missing = extra = different = 0
    wrong, right = list[pa.RecordBatch](), list[pa.RecordBatch]()
    for key in keys:
        row, rows = standing.rows[key], there.get(key, [])
        if len(rows) == (row is not None) and all(row is not None and text == row.text for text, _ in rows):
            continue
        missing += row is not None and not rows
        different += row is not None and bool(rows) and all(text != row.text for text, _ in rows)
        extra += max(0, len(rows) - (row is not None))
        wrong += [one for _, one in rows[:1]]
        right += [row.row] if row is not None else []
    return Differences(missing, extra, different, tuple(wrong), tuple(right))

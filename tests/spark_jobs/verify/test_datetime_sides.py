"""DATETIMEs of another type compared: what the server computes, and what is read and compared here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import TableStopped
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Cast
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn, lake_columns
from spark_jobs.load import reader
from spark_jobs.load.result import Broken
from spark_jobs.snapshot.literals import literal, plain
from spark_jobs.snapshot.source import Source
from spark_jobs.verify import candidates as candidates_room
from spark_jobs.verify.audit import is_whole, shared
from spark_jobs.verify.candidates import candidates, changes_values
from spark_jobs.verify.keys import conditions
from spark_jobs.verify.row_text import lake_text, source_text

BERLIN = "Europe/Berlin"
TEXT, INSTANT = TableRule(casts=(Cast.DATETIME_STRING,)), TableRule(casts=(Cast.DATETIME_TIMESTAMP,))
ZONED = TableRule(casts=(Cast.DATETIME_TIMESTAMP,), zone=BERLIN)
VISITS = TableSchema("shop", "visits", (Column("id", 3, 0), Column("at", 18, 3), Column("day", 10, 0)), ("id",))
BY_TIME = TableSchema("shop", "visits", VISITS.columns, ("at",))


def source(rule: TableRule, zero_dates: str = "fail") -> Source:
    return Source("localhost", 3306, "u", "p", rules=Rules({"*": rule}), zero_dates=zero_dates)


def state(**types: str) -> TableState:
    """A table of the lake with a column of each type."""
    return TableState(1, None, tuple(LakeColumn(name, kind) for name, kind in types.items()), {})


@pytest.mark.parametrize(("rule", "kind"), [(TEXT, "string"), (INSTANT, "timestamp"), (ZONED, "timestamp")])
def test_a_table_that_the_rule_made_is_compared_whole(rule: TableRule, kind: str) -> None:
    """Its column of dates is one of dates. A table that another rule made is compared without the column."""
    found = source(rule).compared(VISITS)
    there = state(id="int", at=kind, day="date")
    seen = shared(found, there)
    assert seen == found
    assert is_whole(found, there)
    assert [column.type for column in lake_columns(pa.schema(arrow_fields(found)), found)] == ["int", kind, "date"]
    for other in {"string", "timestamp", "timestamp_ntz"} - {kind}:
        left = shared(found, state(id="int", at=other, day="date"))
        assert left is not None
        assert [column.name for column in left.shown] == ["id", "day"]
        assert not is_whole(found, state(id="int", at=other, day="date"))


def test_the_server_writes_a_text_and_an_instant_in_utc() -> None:
    """The statements are those of a plain DATETIME, and of one under `sluice.zero.dates = string`."""
    text, instant = (source(rule).compared(VISITS) for rule in (TEXT, INSTANT))
    assert source_text(instant, ["id", "at"]) == source_text(VISITS, ["id", "at"])
    assert source_text(text, ["at"]) == source_text(VISITS.with_dates_as_text(), ["at"])
    assert not any(map(changes_values, (text, instant)))
    moment = datetime(2024, 3, 31, 2, 30)
    as_plain = pa.record_batch({"at": pa.array([moment, None], pa.timestamp("us"))})
    as_instant = pa.record_batch({"at": pa.array([moment.replace(tzinfo=UTC), None], pa.timestamp("us", "UTC"))})
    assert lake_text(as_instant, ["at"]).equals(lake_text(as_plain, ["at"]))


def test_keys_are_looked_up_as_the_server_writes_them() -> None:
    """A zone's instant has no literal there."""
    text, instant, zoned = (source(rule).compared(BY_TIME) for rule in (TEXT, INSTANT, ZONED))
    at = "2024-03-31 02:30:00.000000"
    assert list(conditions(instant, [at.encode()])) == [f"(`at` = '{at}')"]
    assert list(conditions(text, [b"23:2024-03-31 02:30:00.000"])) == [f"(`at` = _utf8mb4 X'{at[:-3].encode().hex()}')"]
    (value,) = plain(pa.array([datetime(2024, 3, 31, 2, 30, tzinfo=UTC)], pa.timestamp("us", "UTC")))
    assert literal(instant.columns[1], value) == f"'{at}'"
    assert literal(text.columns[1], at) == f"'{at}'"
    assert literal(zoned.columns[1], value) is None


def test_instants_of_a_zone_are_compared_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The server computes none: rows are read, and a row of another instant is found."""
    schema = source(ZONED).compared(VISITS)
    moments = [datetime(2024, 7, 1, hour % 24, tzinfo=ZoneInfo(BERLIN)) for hour in range(2000)]

    def rows(changed: int) -> pa.RecordBatch:
        instants = [one.astimezone(UTC) for one in moments]
        if changed:
            instants[changed] = moments[changed].replace(tzinfo=UTC)
        columns = [pa.array(range(2000), pa.int32()), pa.array(instants, pa.timestamp("us", "UTC"))]
        return pa.RecordBatch.from_arrays(
            [*columns, pa.nulls(2000, pa.date32())], schema=pa.schema(arrow_fields(schema))
        )

    def read(*_: Any) -> Iterator[pa.RecordBatch]:
        yield rows(0)

    doubles: dict[str, Any] = {"read_chunks": read, "rows_about": lambda *_: 2000, "_ranges": lambda *_: [""]}
    doubles |= {"connect": lambda _: nullcontext(), "closing": lambda one: one}
    for name, double in doubles.items():
        monkeypatch.setattr(candidates_room, name, double)
    for changed in (0, 7):
        write_deltalake(tmp_path / str(changed), pa.Table.from_batches([rows(changed)]))
        found = candidates(source(ZONED), schema, DeltaTable(tmp_path / str(changed)), "null")
        assert found.keys == ((b"7",) if changed else ())


def test_a_copy_reads_the_definition_by_which_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of a rule are no sign of `sluice.zero.dates = string`, by which a date would be a text too."""
    monkeypatch.setattr(reader, "asked", lambda *_: nullcontext())
    monkeypatch.setattr(reader, "definition", lambda *_: VISITS)
    for rule, zero_dates in ((TEXT, "fail"), (TEXT, "string"), (INSTANT, "fail"), (ZONED, "null")):
        there = source(rule, zero_dates)
        reader.check_definition(there, there.seen(VISITS, zero_dates))
    with pytest.raises(Broken):
        reader.check_definition(source(TEXT), source(INSTANT).seen(VISITS, "fail"))


def test_texts_by_the_setting_are_no_instants() -> None:
    """The two contradict each other, and nothing is read."""
    with pytest.raises(TableStopped, match=r"makes 'at' an instant, and sluice\.zero\.dates = string"):
        source(INSTANT, "string").compared(VISITS)

"""DATETIME as an instant or as a text, where a rule says so: values, and times that are no instant."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.errors import ConfigError, DecodeError
from cdc_core.rows.columns.batch import arrow_type, decode
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Cast, ColumnRule, Mask, MaskKind, Salt, ZeroDates
from cdc_core.schema.table import Column, TableSchema

AT = Column("at", 18, 6)
DAY, MOMENT = Column("day", 10, 0), Column("moment", 17, 0)
TEXT, BERLIN = TableRule(casts=(Cast.DATETIME_STRING,)), "Europe/Berlin"
GAP, TWICE = datetime(2024, 3, 31, 2, 30), datetime(2024, 10, 27, 2, 30)
EDGES = [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(9999, 12, 31, 23, 59, 59, 999_999)]


def instant(zone: str = "UTC") -> TableRule:
    return TableRule(casts=(Cast.DATETIME_TIMESTAMP,), zone=zone)


def seen(rule: TableRule, *columns: Column, key: tuple[str, ...] = ()) -> TableSchema:
    return rule.view(TableSchema("shop", "t", columns or (AT,), key))


def packed(moment: datetime | None) -> bytes:
    """As in a row image: eight bytes; a zero date for None."""
    if moment is None:
        return (1 << 39).to_bytes(5, "big") + bytes(3)
    day = (moment.year * 13 + moment.month) << 5 | moment.day
    clock = moment.hour << 12 | moment.minute << 6 | moment.second
    return ((day << 17 | clock) + (1 << 39)).to_bytes(5, "big") + moment.microsecond.to_bytes(3, "big")


def decoded(
    rule: TableRule | None, *moments: datetime | None, zero_dates: ZeroDates = "fail", null: bool = False
) -> pa.Array:
    """The column of these values, and a NULL at its end if there should be one."""
    schema = seen(rule) if rule else TableSchema("shop", "t", (AT,))
    data = np.frombuffer(b"".join(map(packed, moments)) + bytes(8), np.uint8)
    starts = [8 * at for at in range(len(moments))] + ([-1] if null else [])
    batch = decode(schema, data, np.array([starts], np.int64), zero_dates=zero_dates)
    batch.validate(full=True)
    assert batch.schema.field(0).type == arrow_type(schema.columns[0])
    return batch.column(0)


def utc(moments: Sequence[datetime]) -> list[datetime]:
    return [moment.replace(tzinfo=UTC) for moment in moments]


def test_in_utc_an_instant_is_written_as_its_datetime() -> None:
    """All of the range, the hour that other zones leave out too; the server can compare it."""
    found = decoded(instant(), *EDGES, GAP, null=True)
    assert found.type == pa.timestamp("us", "UTC")
    assert found.to_pylist() == [*utc([*EDGES, GAP]), None]
    assert [column.changes_values for column in seen(instant()).columns] == [False]
    assert [column.changes_values for column in seen(instant(BERLIN)).columns] == [True]


def test_a_text_is_that_of_the_server() -> None:
    """With the digits of the column, zero dates too; other columns of dates are as they were."""
    found = decoded(TEXT, EDGES[0], GAP, None, null=True)
    assert found.to_pylist() == [
        "0001-01-01 00:00:00.000000", "2024-03-31 02:30:00.000000", "0000-00-00 00:00:00.000000", None,
    ]  # fmt: skip
    columns = seen(TEXT, AT, DAY, MOMENT).columns
    assert (columns[0].as_text, columns[0].changes_values) == (True, False)
    assert columns[1:] == (DAY, MOMENT)


def expected(zone: str, moments: Sequence[datetime]) -> list[datetime | None]:
    """As Python's own tables have them; None for a time that the zone does not have, and of two the first."""
    local = ZoneInfo(zone)
    there = [moment.replace(tzinfo=local).astimezone(UTC) for moment in moments]
    exists = [one.astimezone(local).replace(tzinfo=None) == moment for one, moment in zip(there, moments, strict=True)]
    return [one if real else None for one, real in zip(there, exists, strict=True)]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), min_size=1, max_size=20),
    st.sampled_from([BERLIN, "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Etc/GMT+5"]),
)
def test_instants_are_those_of_the_zone(moments: list[datetime], zone: str) -> None:
    """In each year, after 2037 too."""
    assert decoded(instant(zone), *moments, zero_dates="null").to_pylist() == expected(zone, moments)


@pytest.mark.parametrize(
    ("zone", "day", "left_out"),
    [
        (BERLIN, datetime(2024, 3, 31), 60),
        (BERLIN, datetime(2024, 10, 27), 0),
        (BERLIN, datetime(2094, 3, 28), 60),
        (BERLIN, datetime(1893, 4, 1), 7),  # from local mean time, by 6 minutes and 32 seconds
        ("Australia/Lord_Howe", datetime(2023, 10, 1), 30),
        ("America/Sao_Paulo", datetime(2018, 11, 4), 60),  # at midnight
        ("Pacific/Apia", datetime(2011, 12, 30), 1440),
        ("Pacific/Kiritimati", datetime(1995, 1, 1), 1440),  # at the beginning of a year
        ("Africa/Monrovia", datetime(1972, 1, 7), 45),
    ],
)
def test_each_minute_of_a_change_is_right(zone: str, day: datetime, left_out: int) -> None:
    """From the day before to the day after; a zone may leave out an odd time, or a day."""
    minutes = [day + timedelta(minutes=n) for n in range(-1440, 2880)]
    found = decoded(instant(zone), *minutes, zero_dates="null")
    assert found.to_pylist() == expected(zone, minutes)
    assert found.null_count == left_out


@pytest.mark.parametrize(
    ("zone", "moment"),
    [
        (BERLIN, GAP),
        (BERLIN, datetime(1, 1, 1)),  # in the year 0, in UTC
        ("America/New_York", EDGES[-1]),  # in the year 10000
    ],
)
def test_a_time_that_is_no_instant_is_as_a_date_that_does_not_exist(zone: str, moment: datetime) -> None:
    """It stops its table, or is NULL; the error says which time, in which zone, and what to do."""
    around = [datetime(2024, 3, 31, 1, 59, 59), moment, datetime(2024, 3, 31, 3)]
    with pytest.raises(DecodeError, match="row image 1: a local time that does not exist in") as caught:
        decoded(instant(zone), *around)
    assert f"{zone}, {moment}" in caught.value.message
    assert "sluice.zero.dates" in caught.value.hint
    found = decoded(instant(zone), *around, zero_dates="null", null=True).to_pylist()
    assert [one is None for one in found] == [False, True, False, True]


def test_of_a_time_that_there_is_twice_the_first_is_taken() -> None:
    """So two times are never one instant, also in a key."""
    there = [datetime(2024, 10, 27, hour, 30) for hour in (1, 2, 3)]
    found = decoded(instant(BERLIN), *there).to_pylist()
    assert found == utc([datetime(2024, 10, 26, 23, 30), datetime(2024, 10, 27, 0, 30), datetime(2024, 10, 27, 2, 30)])
    assert seen(instant(BERLIN), AT, key=("at",)).defect is None


def test_zero_dates_follow_the_policy() -> None:
    """Of instants, in each zone."""
    for zone in ("UTC", BERLIN):
        with pytest.raises(DecodeError, match="a zero or partial date"):
            decoded(instant(zone), GAP.replace(hour=4), None)
        assert decoded(instant(zone), None, EDGES[1], zero_dates="null").null_count == 1


def test_an_old_datetime_is_one_too() -> None:
    """In the form of before MySQL 5.6."""
    old = Column("at", 12, 0)
    schema = seen(instant(BERLIN), old)
    number = np.frombuffer((20240701083000).to_bytes(8, "little"), np.uint8)
    (found,) = decode(schema, number, np.array([[0]], np.int64)).column(0).to_pylist()
    assert found == datetime(2024, 7, 1, 6, 30, tzinfo=UTC)


def test_a_mask_is_over_the_new_type() -> None:
    """A hash is of the instant's text in UTC, or of the server's text."""
    salt = Salt("SALT").filled(b"pepper")
    masks = (("at", Mask(MaskKind.SHA256, salt=salt)),)
    moment = datetime(2024, 7, 1, 8, 30)
    for rule, text in ((instant(BERLIN), "2024-07-01 06:30:00.000000"), (TEXT, "2024-07-01 08:30:00.000000")):
        masked = TableRule(masks=masks, casts=rule.casts, zone=rule.zone)
        assert decoded(masked, moment).to_pylist() == [hashlib.sha256(b"pepper" + text.encode()).hexdigest()]


def test_a_rule_says_its_zone_alone_where_it_is_not_utc() -> None:
    """Another zone is another rule, and another definition."""
    rules = [instant(), instant(BERLIN), TEXT]
    assert ["zone" in rule.to_dict() for rule in rules] == [False, True, False]
    assert [TableRule.from_dict(rule.to_dict()) for rule in rules] == rules
    columns = [seen(rule).columns[0].rule for rule in rules]
    assert [ColumnRule.from_dict(rule.to_dict()) for rule in columns if rule] == columns
    assert len({seen(rule).version for rule in rules}) == 3


def test_texts_by_the_setting_are_no_instants() -> None:
    """The rule and `sluice.zero.dates = string` contradict each other; a rule that makes texts does not."""
    plain = TableSchema("shop", "t", (AT, DAY)).with_dates_as_text()
    defect = instant().view(plain).defect
    assert defect is not None
    assert "makes 'at' an instant, and sluice.zero.dates = string makes it a text" in defect.reason
    assert TEXT.view(plain).defect is None


@pytest.mark.parametrize("zero_dates", ["fail", "null", "string"])
def test_a_rule_says_what_zero_dates_of_its_table_do(zero_dates: ZeroDates) -> None:
    """Whatever they do in the destination."""
    for otherwise in ("fail", "null", "string"):
        rule = TableRule(zero_dates=zero_dates)
        schema = rule.view(TableSchema("shop", "t", (AT, Column("n", 3, 0))).as_read(otherwise))
        data = np.frombuffer(packed(None) + packed(EDGES[0]) + bytes(8), np.uint8)
        starts = np.array([[0, 8, -1], [16, 16, -1]], np.int64)
        if zero_dates == "fail":
            with pytest.raises(DecodeError, match="a zero or partial date"):
                decode(schema, data, starts, zero_dates=otherwise)
            continue
        found = decode(schema, data, starts, zero_dates=otherwise)
        texts = ["0000-00-00 00:00:00.000000", "0001-01-01 00:00:00.000000", None]
        assert found.column(0).to_pylist() == (texts if zero_dates == "string" else [None, EDGES[0], None])
        assert [column.changes_values for column in schema.columns] == [False, False]


def test_a_rule_about_zero_dates_is_of_dates_alone() -> None:
    """It goes over the wire."""
    schema = seen(TableRule(zero_dates="null"), AT, DAY, MOMENT, Column("time", 19, 0), Column("n", 3, 0))

    assert [column.zero_dates("fail") for column in schema.columns] == ["null", "null", "null", "fail", "fail"]
    fields = {name: value for name, value in schema.to_dict().items() if name != "version"}
    assert TableSchema.from_dict(fields) == schema
    assert TableRule.from_dict(TableRule(zero_dates="null").to_dict()) == TableRule(zero_dates="null")
    assert "zero_dates" not in {**TableRule().to_dict(), **ColumnRule("a").to_dict()}
    with pytest.raises(ValueError, match="'never'"):
        TableRule.from_dict(TableRule().to_dict() | {"zero_dates": "never"})


def test_zero_dates_as_texts_are_no_instants() -> None:
    """Such a rule contradicts itself."""
    rule = TableRule(casts=(Cast.DATETIME_TIMESTAMP,), zero_dates="string")
    with pytest.raises(ConfigError, match="an instant, and a text"):
        rule.check("rules")
    assert seen(TableRule(casts=(Cast.DATETIME_TIMESTAMP,), zero_dates="null")).defect is None

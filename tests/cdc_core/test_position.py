"""Positions: their order, their 64 bit form, and Canal's JSON."""

from __future__ import annotations

import json

import pytest

from cdc_core.errors import PositionError
from cdc_core.position import EntryPosition, LogPosition, journal_number, split_version

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_the_order_is_by_number() -> None:
    """Journal 1000000 comes after 999999, though its name sorts before it; offsets decide within a journal."""
    last, next_one = EntryPosition("mysql-bin.999999", 900), EntryPosition("mysql-bin.1000000", 4)

    assert last < next_one
    assert EntryPosition("mysql-bin.999999", 899) < last
    assert EntryPosition("other.999999", 900, timestamp=5) == last
    assert len({last, EntryPosition("mysql-bin.999999", 900)}) == 1


def test_versions_keep_the_order() -> None:
    """A version is a rising integer of 63 bits that gives number and offset back."""
    places = [
        EntryPosition(f"bin.{number}", offset) for number in (1, 2, (1 << 25) - 1) for offset in (4, (1 << 38) - 1)
    ]
    versions = [place.version() for place in places]

    assert versions == sorted(versions)
    assert versions[-1] < 1 << 63
    assert [split_version(version) for version in versions] == [place.order for place in places]


@pytest.mark.parametrize("place", [EntryPosition("bin.1", 1 << 38), EntryPosition(f"bin.{1 << 25}", 4)])
def test_a_position_that_does_not_fit_is_refused(place: EntryPosition) -> None:
    """The error names the position."""
    with pytest.raises(PositionError, match="64 bits") as refused:
        place.version()

    assert refused.value.place == str(place)


@pytest.mark.parametrize("name", ["mysql-bin", "mysql-bin.", "mysql-bin.1a", ""])
def test_a_journal_without_a_number_is_refused(name: str) -> None:
    """The order needs the number after the last dot."""
    with pytest.raises(PositionError, match="no number"):
        journal_number(name)


@pytest.mark.parametrize(
    "gtid",
    ["", f"{UUID}:7", f"{UUID}:tag:7", f"{UUID}:1-5:7-9", f"{UUID}:1-5:tag:1", f"{UUID}:1", "0-1-7", "0-1-7,3-2-9"],
)
def test_a_cursor_of_a_java_canal_is_written_back_byte_for_byte(gtid: str) -> None:
    """One GTID, a GTID set and none: Canal keeps each as text in one field, and finds it there again."""
    node = (
        '{"@type":"com.alibaba.otter.canal.protocol.position.LogPosition","identity":{"slaveId":-1,"sourceAddress":'
        f'{{"address":"localhost","port":33061}}}},"postion":{{"gtid":"{gtid}","included":false,"journalName":'
        '"mysql-bin.000001","position":35934751,"serverId":1,"timestamp":1795253009000}}'
    )

    assert LogPosition.from_json(node).to_json() == node


def test_a_cursor_without_a_gtid_field() -> None:
    """A Java Canal without GTIDs writes null, or leaves the field out."""
    fields = {"journalName": "mysql-bin.000001", "position": 4, "timestamp": 1, "serverId": 1}

    assert EntryPosition.from_dict(fields).gtid is None
    assert EntryPosition.from_dict({**fields, "gtid": None}).to_dict()["gtid"] == ""


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"identity": {"sourceAddress": {"address": "a", "port": 1}}, "postion": {"position": 4}}']
)
def test_a_malformed_cursor_is_refused(text: str) -> None:
    """Whatever is missing, the error is ours."""
    with pytest.raises(PositionError):
        LogPosition.from_json(text)
    with pytest.raises(PositionError):
        EntryPosition.from_dict(json.loads("{}"))

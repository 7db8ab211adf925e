"""Every branch of the start tree: facts in; a rule and a place out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc_core.errors import PositionError
from cdc_core.gtid import GtidSet
from cdc_core.position import EntryPosition, LogPosition
from cdc_core.source.start.tree import AtEnd, ByGtid, ByPosition, ByTime, Configured, Place, StartFacts, choose

HERE, THERE, ELSEWHERE = "db1:3306", "db2:3306", "db3:3306"
SET = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
LAST = EntryPosition("mysql-bin.000007", 1234, 1_700_000_000_000, 1)
WITH_SET = replace(LAST, gtid=GtidSet.parse(SET))
BACK = ByTime(1_700_000_000_000 - 60_000)
FIRST = EntryPosition("mysql-bin.000001", 100)


def at(position: EntryPosition, address: str = "db1") -> LogPosition:
    return LogPosition(address, 3306, position)


def facts(**changes: object) -> StartFacts:
    return replace(StartFacts(HERE, server_id=1), **changes)  # type: ignore[arg-type]


def master(**changes: object) -> Configured:
    return replace(Configured(HERE), **changes)  # type: ignore[arg-type]


def standby(**changes: object) -> Configured:
    return replace(Configured(THERE), **changes)  # type: ignore[arg-type]


JOURNAL = FIRST.journal_name
BRANCHES: list[tuple[str, StartFacts, str, Place, bool]] = [
    # GTID mode
    ("1.3", facts(gtid_mode=True, history=at(WITH_SET)), "last position's GTID", ByGtid(SET, WITH_SET), True),
    (
        "1.3 at another address",
        facts(gtid_mode=True, history=at(WITH_SET, "db2")),
        "another address: the last position's GTID",
        ByGtid(SET),
        False,
    ),
    (
        "1.3 before the configured set",
        facts(gtid_mode=True, history=at(WITH_SET), master=master(gtid="x:1")),
        "last position's GTID",
        ByGtid(SET, WITH_SET),
        True,
    ),
    (
        "1.3 without a set falls through",
        facts(gtid_mode=True, history=at(LAST), master=master(gtid=SET)),
        "the last position",
        ByPosition(LAST),
        True,
    ),
    ("1.4", facts(gtid_mode=True, master=master(gtid=SET)), "configured GTID", ByGtid(SET), False),
    ("1.4 without a set", facts(gtid_mode=True, master=master()), "current end", AtEnd(), False),
    ("1.4 without a master", facts(gtid_mode=True), "current end", AtEnd(), False),
    ("a set without GTID mode", facts(history=at(WITH_SET)), "the last position", ByPosition(WITH_SET), True),
    # no history
    (
        "2.2.1",
        facts(master=master(journal_name=JOURNAL, position=100), standby=standby(timestamp=5)),
        "master's configured journal and position",
        ByPosition(FIRST),
        False,
    ),
    (
        "2.2.2",
        facts(address=THERE, master=master(timestamp=5), standby=standby(journal_name=JOURNAL, position=100)),
        "standby's configured journal and position",
        ByPosition(FIRST),
        False,
    ),
    (
        "2.2.3 neither's address",
        facts(address=ELSEWHERE, master=master(timestamp=5), standby=standby(timestamp=5)),
        "nothing is configured for this address",
        AtEnd(),
        False,
    ),
    ("2.2.3 nothing at all", facts(), "nothing is configured", AtEnd(), False),
    ("2.2.4", facts(master=master(timestamp=5)), "master's configured time", ByTime(5), False),
    ("2.2.4 standby", facts(address=THERE, standby=standby(timestamp=5)), "standby's", ByTime(5), False),
    ("2.2.4 without a time", facts(master=master()), "no start is configured for the master", AtEnd(), False),
    (
        "2.2.5",
        facts(master=master(journal_name=JOURNAL, position=100, timestamp=5)),
        "journal and position",
        ByPosition(FIRST),
        False,
    ),
    (
        "2.2.5 before the first event",
        facts(master=master(journal_name=JOURNAL, position=1)),
        "journal and position",
        ByPosition(EntryPosition(JOURNAL, 4)),
        False,
    ),
    (
        "2.2.6",
        facts(master=master(journal_name=JOURNAL, timestamp=5)),
        "time in its journal",
        ByTime(5, JOURNAL),
        False,
    ),
    (
        "2.2.7",
        facts(master=master(journal_name=JOURNAL)),
        "journal, from its start",
        ByPosition(EntryPosition(JOURNAL, 4)),
        False,
    ),
    # a history
    ("2.1.1.1", facts(history=at(LAST), errors=3, server_id=2), "errors in a row", BACK, False),
    ("2.1.1.1 by then twice", facts(history=at(LAST), errors=2, server_id=2), "the last", ByPosition(LAST), True),
    ("2.1.1.1 same server", facts(history=at(LAST), errors=9), "the last position", ByPosition(LAST), True),
    (
        "2.1.1.1 with a standby",
        facts(history=at(LAST), errors=9, server_id=2, standby=standby()),
        "the last position",
        ByPosition(LAST),
        True,
    ),
    (
        "2.1.1.1 unknown before",
        facts(history=at(FIRST), errors=9, server_id=2),
        "the last position",
        ByPosition(FIRST),
        True,
    ),
    (
        "2.1.1.1 switched off",
        facts(history=at(LAST), errors=9, errors_in_a_row=-1, server_id=2),
        "the last position",
        ByPosition(LAST),
        True,
    ),
    (
        "2.1.1.2",
        facts(history=at(LAST), master=master(journal_name=JOURNAL, position=100)),
        "the last position",
        ByPosition(LAST),
        True,
    ),
    ("2.1.2", facts(history=at(LAST, "db2")), "another address", BACK, False),
    (
        "2.1.2 another interval",
        facts(history=at(LAST, "db2"), fallback_seconds=5),
        "another address",
        ByTime(1_699_999_995_000),
        False,
    ),
    # a server known by its uuid
    ("same at another address", facts(history=at(LAST, "db2"), same=True), "the last", ByPosition(LAST), True),
    ("another at its address", facts(history=at(LAST), same=False), "another server at the", BACK, False),
    (
        "another at its address, with a standby",
        facts(history=at(LAST), same=False, standby=standby()),
        "another server at the address",
        BACK,
        False,
    ),
    (
        "another at its address, by GTID",
        facts(gtid_mode=True, history=at(WITH_SET), same=False),
        "another server at the address: the last position's GTID",
        ByGtid(SET),
        False,
    ),
    (
        "same, whatever server id its events have",
        facts(history=at(LAST), same=True, errors=9, server_id=2),
        "the last position",
        ByPosition(LAST),
        True,
    ),
    # inside a transaction
    ("3", facts(history=at(LAST), inside=True), "start of the transaction", ByPosition(LAST, whole=True), True),
]


@pytest.mark.parametrize(
    ("known", "rule", "place", "goes_on"), [branch[1:] for branch in BRANCHES], ids=[branch[0] for branch in BRANCHES]
)
def test_branch(known: StartFacts, rule: str, place: Place, goes_on: bool) -> None:
    """The numbers are those of the article on findStartPosition of Canal."""
    choice = choose(known)
    assert rule in choice.rule
    assert choice.place == place
    assert choice.goes_on == goes_on
    assert choice.moved == (known.history is not None and not goes_on)


def test_another_address_without_a_time() -> None:
    """Without a time the place at the other address is unknown."""
    with pytest.raises(PositionError, match="db2:3306 and has no time") as caught:
        choose(facts(history=at(FIRST, "db2")))
    assert "sluice reset DESTINATION --anew" in caught.value.hint


def test_the_facts_are_reported() -> None:
    """The log and the status page get the facts."""
    told = facts(history=at(LAST, "db2"), errors=3, server_id=2, gtid_mode=True).describe()
    assert told == ("cursor mysql-bin.000007:1234 of db2:3306, server db1:3306 with id 2, 3 errors in a row, GTID mode")
    assert facts().describe() == "no cursor, server db1:3306 with id 1"

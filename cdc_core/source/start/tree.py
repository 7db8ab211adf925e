"""Where to start: Canal's `MysqlEventParser.findStartPosition` as a pure function of facts.

A choice has a rule, which the log and the status show. `start.place` finds the journal and offset of the choice on the
server.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_core.errors import BEGIN_ANEW, PositionError
from cdc_core.gtid import Gtids
from cdc_core.position import JOURNAL_START, EntryPosition, LogPosition

FALLBACK_SECONDS = 60
ERRORS_IN_A_ROW = 2  # Canal's dumpErrorCountThreshold


@dataclass(frozen=True, slots=True)
class Configured:
    """A server's address, `host:port`, and the start configured for it. `timestamp` is in milliseconds, 0 for none."""

    address: str
    journal_name: str = ""
    position: int = 0
    timestamp: int = 0
    gtid: str = ""


@dataclass(frozen=True, slots=True)
class StartFacts:
    """`history` is the last known position, from memory or from the cursors. `server_id` is that of the server now;
    `same` says whether the history was read from that server, None when its uuid is not known. `inside`: the history
    led into the middle of a transaction. `errors` counts the failures in a row. `renumbered`: the server begins its
    journals again, and has all of the history's GTID set."""

    address: str
    server_id: int
    history: LogPosition | None = None
    same: bool | None = None
    master: Configured | None = None
    standby: Configured | None = None
    gtid_mode: bool = False
    errors: int = 0
    errors_in_a_row: int = ERRORS_IN_A_ROW
    fallback_seconds: int = FALLBACK_SECONDS
    inside: bool = False
    renumbered: bool = False

    def describe(self) -> str:
        """The facts in one line, for the log and the status."""
        history = "no cursor"
        if self.history is not None:
            history = f"cursor {self.history.postion} of {self.history.address}:{self.history.port}"
        parts = [history, f"server {self.address} with id {self.server_id}"]
        parts += [f"{self.errors} errors in a row"] if self.errors else []
        parts += ["GTID mode"] if self.gtid_mode else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class ByGtid:
    """From the first transaction that is not in the set. `position` is where the set was reached, if known."""

    gtid: str
    position: EntryPosition | None = None


@dataclass(frozen=True, slots=True)
class ByPosition:
    """`whole`: from the start of the transaction that contains the position."""

    position: EntryPosition
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ByTime:
    """Milliseconds since the epoch; in one journal when it is named."""

    timestamp: int
    journal_name: str = ""


@dataclass(frozen=True, slots=True)
class AtEnd:
    """The server's current end."""


Place = ByGtid | ByPosition | ByTime | AtEnd


@dataclass(frozen=True, slots=True)
class Choice:
    """`goes_on`: the positions of the history are valid on this server, and clients keep their cursors. `moved`: they
    are another server's, and `place` is on this one."""

    rule: str
    place: Place
    goes_on: bool = False
    moved: bool = False


def choose(facts: StartFacts) -> Choice:
    """Raises PositionError when a cursor of another server has no time to search by."""
    return (_by_gtid(facts) if facts.gtid_mode else None) or _by_place(facts)


def _by_gtid(facts: StartFacts) -> Choice | None:
    """None for a history without a set, from before GTID mode was switched on: its position decides."""
    if facts.history is None:
        if facts.master is not None and facts.master.gtid:
            return Choice("the configured GTID set", ByGtid(facts.master.gtid))
        return None
    position = facts.history.postion
    if not isinstance(position.gtid, Gtids):
        return None
    if why := _elsewhere(facts):
        return Choice(f"{why}: the last position's GTID set", ByGtid(str(position.gtid)), moved=True)
    return Choice("the last position's GTID set", ByGtid(str(position.gtid), position), goes_on=True)


def _by_place(facts: StartFacts) -> Choice:
    if facts.history is None:
        return _configured(facts)
    if why := _elsewhere(facts):
        return Choice(f"{why}: the last position's time", _some_time_before(facts), moved=True)
    rule = "the last position"
    if facts.inside:
        rule = "the start of the transaction that the last position lies in"
    return Choice(rule, ByPosition(facts.history.postion, whole=facts.inside), goes_on=True)


def _elsewhere(facts: StartFacts) -> str:
    """Why the history's journals are not this server's; empty when they are. A server known by its uuid may have
    another address now."""
    assert facts.history is not None
    if facts.renumbered:
        return "the same server with new journals"
    if facts.same:
        return ""
    if f"{facts.history.address}:{facts.history.port}" != facts.address:
        return "another address"
    if facts.same is False:
        return "another server at the address"
    return "errors in a row, and another server id" if _turned(facts) else ""


def _turned(facts: StartFacts) -> bool:
    """Whether one address stands for several servers, and another one answers now. A configured standby excludes it."""
    assert facts.history is not None
    before = facts.history.postion.server_id
    several = facts.standby is None and before is not None and before != facts.server_id
    return several and 0 <= facts.errors_in_a_row < facts.errors


def _some_time_before(facts: StartFacts) -> ByTime:
    assert facts.history is not None
    position = facts.history.postion
    if not position.timestamp:
        raise PositionError(
            f"the cursor belongs to {facts.history.address}:{facts.history.port} and has no time by which "
            f"its place on {facts.address} could be found",
            place=str(position),
            hint=f"Configure the address that it belongs to. {BEGIN_ANEW}",
        )
    return ByTime(position.timestamp - facts.fallback_seconds * 1000)


def _configured(facts: StartFacts) -> Choice:
    for name, start in (("master", facts.master), ("standby", facts.standby)):
        if start is not None and start.address == facts.address:
            return _start_of(name, start)
    return Choice("the current end: nothing is configured for this address", AtEnd())


def _start_of(name: str, start: Configured) -> Choice:
    if not start.journal_name:
        if start.timestamp > 0:
            return Choice(f"the {name}'s configured time", ByTime(start.timestamp))
        return Choice(f"the current end: no start is configured for the {name}", AtEnd())
    if start.position > 0:
        position = EntryPosition(start.journal_name, max(start.position, JOURNAL_START))
        return Choice(f"the {name}'s configured journal and position", ByPosition(position))
    if start.timestamp > 0:
        return Choice(f"the {name}'s configured time in its journal", ByTime(start.timestamp, start.journal_name))
    position = EntryPosition(start.journal_name, JOURNAL_START)
    return Choice(f"the {name}'s configured journal, from its start", ByPosition(position))

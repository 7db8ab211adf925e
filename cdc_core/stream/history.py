"""The source's binlog before the present position: reads a group again, finds the group that an XA COMMIT commits.

Source: MySQL manual, "XA Transactions". Between XA PREPARE and XA COMMIT other transactions may be written, to other
files too, and the server may restart. Only one transaction of a given xid is prepared at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import structlog

from cdc_core.binlog.block import Block
from cdc_core.binlog.statements import Meaning, meaning
from cdc_core.binlog.xid import Xid, prepared_in
from cdc_core.errors import DecodeError
from cdc_core.position import JOURNAL_START, EntryPosition, journal_number
from cdc_core.source.journal_range import read_range
from cdc_core.source.journals import list_journals
from cdc_core.source.settings import SourceSettings
from cdc_core.stream.expand import expand
from cdc_core.stream.group import Group, body_at, statement_at
from cdc_core.stream.group_scan import Decision, decisive_events, new_state

log = structlog.get_logger(__name__)

Read = Callable[[EntryPosition, int | None], Iterator[Block]]


class History:
    """`journals` lists the server's files, oldest first. `read` reads the events from a position up to an offset, or to
    the end of the journal."""

    def __init__(self, journals: Callable[[], list[str]], read: Read) -> None:
        self._journals, self._read = journals, read
        self._not_found: set[tuple[Xid, EntryPosition]] = set()  # a purged file does not come back

    def __repr__(self) -> str:
        return "<History>"

    @classmethod
    def of_server(cls, settings: SourceSettings, stopped: Callable[[], bool]) -> History:
        """Reads from a server. Every read raises SourceUnavailable once `stopped` returns True."""
        return cls(
            lambda: [journal.name for journal in list_journals(settings)],
            lambda start, end: read_range(settings, start, end, stopped),
        )

    def reread(self, group: Group) -> Iterator[Block]:
        """The group's events, expanded."""
        for block in self._read(EntryPosition(group.journal_name, group.start), group.end):
            yield from expand(block)

    def find_prepared(self, xid: Xid, before: EntryPosition) -> Group:
        """The last group before a position that was prepared as `xid`; searches from the newest file to the oldest.

        Raises DecodeError when there is none."""
        if (xid, before) in self._not_found:
            raise _purged(xid, before)
        log.info("looking for a prepared XA transaction", xid=str(xid), before=str(before))
        newest = journal_number(before.journal_name)
        names = [journal for journal in self._journals() if journal_number(journal) <= newest]
        for journal in reversed(names):
            group = self._last_in(xid, journal, before.position if journal == before.journal_name else None)
            if group is not None:
                return group
        self._not_found.add((xid, before))
        raise _purged(xid, before)

    def _last_in(self, xid: Xid, journal: str, end: int | None) -> Group | None:
        state, found, rolls_back = new_state(), None, -1
        for read in self._read(EntryPosition(journal, JOURNAL_START), end):
            for block in expand(read):
                for one in decisive_events(block, state):
                    row, start = int(one["row"]), int(one["start"])
                    if one["decision"] == Decision.STATEMENT:
                        if meaning(statement_at(block, row)) is Meaning.ROLLBACK_TO:
                            rolls_back = start
                    elif one["decision"] == Decision.PREPARE:
                        other, in_one_phase = prepared_in(body_at(block, row), block.place(row))
                        if other == xid and not in_one_phase:
                            found = Group(journal, start, int(block.index["end"][row]), rolls_back == start)
        return found


def _purged(xid: Xid, before: EntryPosition) -> DecodeError:
    return DecodeError(
        f"XA COMMIT {xid}: its rows are in no journal that the server still has",
        place=str(before),
        hint="Start this destination after it (canal.instance.master.journal.name and .position, and remove the "
        "cursor), reload the tables that it changed (sluice copy), then compare with sluice verify.",
    )

"""The source's binlog behind the present place: a group read again, and the group that an XA COMMIT belongs to.

Source: MySQL manual, "XA Transactions": between XA PREPARE and XA COMMIT other transactions may be written, also to
other files, and the server may restart; of one name one alone is prepared at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import structlog

from cdc_core.binlog import notes
from cdc_core.binlog.expand import expand
from cdc_core.binlog.group import Group, body_of, text_of
from cdc_core.binlog.statements import Meaning, meaning
from cdc_core.binlog.xid import Xid, prepared_in
from cdc_core.errors import DecodeError
from cdc_core.position import EntryPosition, journal_number
from cdc_core.source.block import Block
from cdc_core.source.framing import JOURNAL_START
from cdc_core.source.settings import SourceSettings
from cdc_core.source.stretch import journals, read_stretch

log = structlog.get_logger(__name__)

Read = Callable[[EntryPosition, int | None], Iterator[Block]]


class History:
    """`journals` lists the server's files, oldest first; `read` gives the events from a place to an offset, or to the
    journal's end."""

    def __init__(self, journals: Callable[[], list[str]], read: Read) -> None:
        self._journals, self._read = journals, read
        self._gone: set[tuple[Xid, EntryPosition]] = set()  # looked for in vain: what is purged does not come back

    def __repr__(self) -> str:
        return "<History>"

    @classmethod
    def of(cls, settings: SourceSettings, stopped: Callable[[], bool]) -> History:
        """Of a server; its readings end with SourceUnavailable when `stopped`."""
        return cls(
            lambda: [journal.name for journal in journals(settings)],
            lambda start, end: read_stretch(settings, start, end, stopped),
        )

    def again(self, group: Group) -> Iterator[Block]:
        """The group's events, opened."""
        for block in self._read(EntryPosition(group.journal_name, group.start), group.end):
            yield from expand(block)

    def find(self, name: Xid, before: EntryPosition) -> Group:
        """The last that was prepared under that name; reads the files backwards, each from its start."""
        if (name, before) in self._gone:
            raise _purged(name, before)
        log.info("looking for a prepared XA transaction", xid=str(name), before=str(before))
        here = journal_number(before.journal_name)
        names = [journal for journal in self._journals() if journal_number(journal) <= here]
        for journal in reversed(names):
            group = self._last_in(name, journal, before.position if journal == before.journal_name else None)
            if group is not None:
                return group
        self._gone.add((name, before))
        raise _purged(name, before)

    def _last_in(self, name: Xid, journal: str, end: int | None) -> Group | None:
        state = np.zeros(notes.PLACES, np.int64)
        found, came_back = None, -1
        for read in self._read(EntryPosition(journal, JOURNAL_START), end):
            for block in expand(read):
                for note in notes.take(block, state):
                    row, start = int(note["row"]), int(note["start"])
                    if note["code"] == notes.TEXT and meaning(text_of(block, row)) is Meaning.ROLLBACK_TO:
                        came_back = start
                    if note["code"] == notes.PREPARE:
                        other, in_one_phase = prepared_in(body_of(block, row), f"{journal}:{start}")
                        if other == name and not in_one_phase:
                            found = Group(journal, start, int(block.index["end"][row]), came_back == start)
        return found


def _purged(name: Xid, before: EntryPosition) -> DecodeError:
    return DecodeError(
        f"XA COMMIT {name}: its rows are in no journal that is left",
        place=str(before),
        hint="Start this destination behind it (canal.instance.master.journal.name and .position, and remove the "
        "cursor), take a new snapshot of the tables that it changed, then compare with sluice verify.",
    )

"""Reads a range of one journal over its own connection, while the dump waits."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

import numpy as np
import pymysql

from cdc_core.binlog.block import Block
from cdc_core.errors import SourceUnavailable
from cdc_core.position import EntryPosition
from cdc_core.source.connection import connect, source_error, version_of
from cdc_core.source.dump_command import begin_dump
from cdc_core.source.dump_socket import MISSED, receive
from cdc_core.source.framing import Framer
from cdc_core.source.settings import SourceSettings


def read_range(
    settings: SourceSettings, start: EntryPosition, end: int | None, stopped: Callable[[], bool]
) -> Generator[Block, None, None]:
    """The events from `start` up to the offset `end`, or to the end of the journal. Raises SourceUnavailable, also once
    `stopped` returns True, and the errors of a dump."""
    own = replace(settings, slave_id=0, by_gtid=False).identified()  # two dumps of one server id end each other
    conn = connect(own)
    try:
        framer = begin_dump(conn, own, version_of(conn), start, wait=False)
        sock = conn._sock  # type: ignore[attr-defined]
        sock.settimeout(max(MISSED * own.heartbeat_seconds, 1.0))
        while framer.journal_name == start.journal_name:
            if stopped():
                raise SourceUnavailable("reading was stopped", place=str(start), hint="No action is needed.")
            receive(sock, framer, own)
            for block in _ready(framer, end):
                if block.journal_name != start.journal_name:
                    return
                rows = len(block.index) if end is None else int(np.searchsorted(block.index["end"], end, side="right"))
                yield replace(block, index=block.index[:rows])
                if end is not None and block.end >= end:
                    return
    except pymysql.err.MySQLError as error:
        raise source_error(error, own) from error
    finally:
        conn._force_close()  # type: ignore[attr-defined]


def _ready(framer: Framer, end: int | None) -> Iterator[Block]:
    """The full blocks; at `end` also the last one."""
    yield from framer.blocks(flush=False)
    if end is not None and framer.position >= end:
        yield from framer.blocks()

"""Tables that come back into the filter: their changes of the time outside are in nobody's binlog any more.

A client's start compares the filter with the one that is noted with its cursor. A table that the noted one left out,
and that any filter before it captured, stops until it is copied. One that was never captured is new: it begins as every
table does that the lake does not have. Canal's clients read entries and keep nothing, so no table stops for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from cdc_core.config.models import InstanceConfig
from cdc_core.contract.stopped_table import FILTERED_OUT, StoppedTable
from cdc_core.destination.catalogue import Catalogue
from cdc_core.destination.tsdb import Tsdb
from cdc_core.errors import ConfigError, safe_name
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.filter_notes import FilterChange, FilterNote, FilterText
from cdc_core.position import EntryPosition
from cdc_core.schema.names import full_name, split_name
from cdc_core.stream.filter import TableFilter, make_filter
from cdc_core.stream.online_ddl import is_helper

_SHOWN = 10  # names in the log

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Refilter:
    """`now` is the destination's filter, `own` whether a client may have brought it along. `source` names the server
    that is read, by its uuid."""

    cursors: Cursors
    now: FilterText
    own: bool
    catalogue: Catalogue
    tsdb: Tsdb | None
    source: Callable[[], str]

    def __call__(self, client_id: int, at: EntryPosition) -> FilterChange | None:
        """What the start of a client at a place changes; None where its filter is the noted one.

        Raises SourceError, CursorError."""
        filters = self.cursors.filters
        noted = filters.of(client_id)
        if noted is not None and noted.now == self.now:
            return None
        noted = noted or filters.older(client_id, self.now, own=self.own)
        if noted is None or noted.now == self.now:
            return FilterChange(noted or FilterNote(self.now))
        if self.cursors.reads_entries(client_id):
            return FilterChange(noted.after(self.now))
        return self._changed(client_id, at, noted)

    def _changed(self, client_id: int, at: EntryPosition, noted: FilterNote) -> FilterChange:
        names = self.catalogue.names() | (self.tsdb.names_at(self.source(), at) if self.tsdb else set())
        new, old = accepts(self.now), accepts(noted.now)
        gone = sorted(full_name(*name) for name in names if old(*name) and not new(*name))
        come = sorted(full_name(*name) for name in names if new(*name) and not old(*name) and not _helps(name, names))
        ever = [accepts(one) for one in noted.before]
        back = [one for one in come if noted.any_before or any(once(*split_name(one)) for once in ever)]
        opened = [split_name(one.table) for one in self.cursors.snapshots.of(client_id)]
        unread = frozenset(full_name(*name) for name in opened if new(*name) != old(*name))
        log.warning(
            "the filter changed",
            destination=self.cursors.destination,
            client=client_id,
            place=str(at),
            left_out=_shown(gone),
            new=_shown(sorted({*come} - {*back})),
            stopped_until_copied=_shown(back),
        )
        return FilterChange(noted.after(self.now), tuple(self._stop(one, at) for one in back), unread)

    def _stop(self, table: str, at: EntryPosition) -> StoppedTable:
        name = self.cursors.destination
        job = f"snapshot_{safe_name(name)}"
        hint = f"Copy it from the source: sluice snapshot {name} {table}, or the job {job} in Dagster."
        return StoppedTable(table, FILTERED_OUT, hint, at, passed=at, copy_needed=True)


def captured_by(config: InstanceConfig, cursors: Cursors) -> InstanceConfig:
    """With `sluice.client.filter = override` the filter that the first client brought along is over the configured one,
    as Canal's `subscribeChange` has it. Raises CursorError."""
    own = cursors.own_filter(config.clients[0]) if config.client_filter == "override" else ""
    return config.model_copy(update={"filter_regex": own}) if own else config


def make_refilter(
    config: InstanceConfig, cursors: Cursors, catalogue: Catalogue, tsdb: Tsdb | None, source: Callable[[], str]
) -> Refilter:
    """That of a destination's present configuration."""
    now, own = FilterText(config.filter_regex, config.filter_black_regex), config.client_filter == "override"
    return Refilter(cursors, now, own, catalogue, tsdb, source)


def accepts(text: FilterText) -> TableFilter:
    """The filter of these expressions. One that does not compile any more accepts no table."""
    try:
        return make_filter(text.regex, text.black)
    except ConfigError:
        return lambda _database, _table: False


def _helps(name: tuple[str, str], names: Iterable[tuple[str, str]]) -> bool:
    return is_helper(*name, lambda *one: one in names)


def _shown(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")

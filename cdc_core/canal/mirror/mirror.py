"""The handler that mirrors: gathers a batch's rows, and writes them when it ends."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import structlog

from cdc_core.canal.client.events import Event, Header, Row, Statement
from cdc_core.canal.client.handler import Handler
from cdc_core.canal.mirror.rules import MirrorRule, MirrorRules
from cdc_core.canal.mirror.scope import effects_of, is_mirrored
from cdc_core.canal.mirror.sql import Untranslatable
from cdc_core.canal.mirror.target import MirrorPlace, Target, refused
from cdc_core.canal.mirror.work import Work
from cdc_core.schema.sql_text import shown

log = structlog.get_logger(__name__)


class Mirror(Handler):
    """`rows` and `statements` count those that reached the target. `done`: places of statements that were run by hand,
    `mysql-bin.000003:4711`."""

    def __init__(self, rules: MirrorRules, target: Target, done: Collection[str] = ()) -> None:
        self._rules, self._target, self._done = rules, target, done
        self._work, self._last = self._nothing()
        self._header: Header | None = None  # of the event at hand, and whether the target has it
        self._taken: Header | None = None  # of the last event that was gathered
        self._covered = False
        self._of_table: Sequence[MirrorRule] = ()
        self.rows = self.statements = 0

    def __repr__(self) -> str:
        return f"<Mirror {self._target!r} rows={self.rows}>"

    def _nothing(self) -> tuple[Work, MirrorPlace | None]:
        """Nothing is gathered."""
        return Work(labels=self._target.server.labels), None

    def handle(self, event: Event) -> None:
        """Raises what the target raises. What was gathered is dropped then: the batch comes again."""
        if event.header is not self._header:  # the rows of one event share it
            self._header, place, reached = event.header, _place(event.header), self._target.current()
            self._covered = reached is not None and reached.covers(place)
            self._of_table = self._rules.of(event.header.database, event.header.table)
        if self._covered:
            return
        try:
            self._take(event)
        except BaseException:
            self._work, self._last = self._nothing()
            self._header = self._taken = None
            self._target.close()
            raise

    def _take(self, event: Event) -> None:
        if isinstance(event, Row):
            for rule in self._of_table:
                self._work.add(event, rule)
            if self._of_table and (done := self._work.ready()):
                self._target.take(done)
        elif isinstance(event, Statement):
            self._statement(event, _place(event.header))
        if event.header is not self._taken:
            self._taken, place = event.header, _place(event.header)
            before = self._last or self._target.reached or place
            self._last = replace(place, execute_time=max(place.execute_time, before.execute_time))

    def _statement(self, event: Statement, place: MirrorPlace) -> None:
        by_hand = event.header.place in self._done
        if not (by_hand or self._is_mirrored(event, place)):
            return
        self._write()
        before = self._target.reached or place
        latest = replace(place, execute_time=max(place.execute_time, before.execute_time))
        if by_hand:
            log.info("a statement was run manually", place=event.header.place, sql=shown(event.sql, 500))
            self._target.apply((), latest)
            return
        self._target.define(event.sql, event.database, event.header.table, latest, place.execute_time / 1000)
        self.statements += 1

    def _is_mirrored(self, event: Statement, place: MirrorPlace) -> bool:
        """What is not understood is its header's table's."""
        found, _ = effects_of(event.sql, event.database, event.header.table)
        if not found:
            return any(rule.mirror_db for rule in self._of_table)
        try:
            return is_mirrored(found, self._rules)
        except Untranslatable as error:
            raise refused("a statement is not run", error, event.sql, place) from error

    def on_batch_end(self, batch_id: int) -> None:  # noqa: ARG002 - Canal's
        self._write()

    def _write(self) -> None:
        """What was gathered, with the place of the last event. An error leaves nothing gathered: it comes again."""
        work, last = self._work, self._last
        self._work, self._last = self._nothing()
        if last is not None:
            self._target.apply(work.groups(), last)
            self.rows += work.rows


def _place(header: Header) -> MirrorPlace:
    return MirrorPlace(header.source or header.server_id, header.journal_name, header.position, header.execute_time)

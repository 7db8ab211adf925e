"""The handler that mirrors: gathers a batch's rows, and writes them when it ends."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import structlog

from cdc_core.canal.client.events import Change, Header, Rows, Statement
from cdc_core.canal.client.handler import Handler
from cdc_core.canal.mirror.rules import MirrorRules
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
        self.rows = self.statements = 0

    def __repr__(self) -> str:
        return f"<Mirror {self._target!r} rows={self.rows}>"

    def _nothing(self) -> tuple[Work, MirrorPlace | None]:
        """Nothing is gathered."""
        return Work(labels=self._target.server.labels), None

    def on_change(self, change: Change) -> None:
        """Raises what the target raises. What was gathered is dropped then: the batch comes again."""
        reached = self._target.current()
        if reached is not None and reached.covers(_place(change.header)):
            return
        try:
            self._take(change)
        except BaseException:
            self._work, self._last = self._nothing()
            self._target.close()
            raise

    def _take(self, change: Change) -> None:
        place = _place(change.header)
        if isinstance(change, Rows):
            rules = self._rules.of(change.header.database, change.header.table)
            for rule in rules:
                self._work.add(change, rule)
            if rules and (done := self._work.ready()):
                self._target.take(done)
        elif isinstance(change, Statement):
            self._statement(change, place)
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
            header = event.header
            return any(rule.mirror_db for rule in self._rules.of(header.database, header.table))
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

"""The handler that mirrors: gathers a batch's rows, and writes them when it ends."""

from __future__ import annotations

from dataclasses import replace

from cdc_core.client.canal.events import Event, Header, Row, Statement
from cdc_core.client.canal.handler import Handler
from cdc_core.mirror.rules import Rules
from cdc_core.mirror.target import Place, Target
from cdc_core.mirror.work import Work


class Mirror(Handler):
    """`rows` and `statements` count those that reached the target."""

    def __init__(self, rules: Rules, target: Target) -> None:
        self._rules, self._target = rules, target
        self._work = Work()
        self._last: Place | None = None
        self.rows = self.statements = 0

    def __repr__(self) -> str:
        return f"<Mirror {self._target!r} rows={self.rows}>"

    def handle(self, event: Event) -> None:
        """Raises what the target raises. What was gathered is dropped then: the batch comes again."""
        place = _place(event.header)
        if self._target.reached is not None and self._target.reached.covers(place):
            return
        try:
            self._take(event, place)
        except BaseException:
            self._work, self._last = Work(), None
            raise

    def _take(self, event: Event, place: Place) -> None:
        if isinstance(event, Row):
            rule = self._rules.of(event.header.database, event.header.table)
            if rule is not None:
                self._work.add(event, rule)
        elif isinstance(event, Statement):
            self._statement(event, place)
        before = self._last or self._target.reached or place
        self._last = replace(place, execute_time=max(place.execute_time, before.execute_time))

    def _statement(self, event: Statement, place: Place) -> None:
        rule = self._rules.of(event.header.database, event.header.table)
        if rule is None or not rule.mirror_db:
            return
        self._write()
        before = self._target.reached or place
        latest = replace(place, execute_time=max(place.execute_time, before.execute_time))
        self._target.define(event.sql, event.database, latest)
        self.statements += 1

    def on_batch_end(self, batch_id: int) -> None:  # noqa: ARG002 - Canal's
        self._write()

    def _write(self) -> None:
        """What was gathered, with the place of the last event. An error leaves nothing gathered: it comes again."""
        work, last = self._work, self._last
        self._work, self._last = Work(), None
        if last is not None:
            self._target.apply(work.groups(), last)
            self.rows += work.rows


def _place(header: Header) -> Place:
    return Place(header.server_id, header.journal_name, header.position, header.execute_time)

"""The sensor that sends messages when a destination has a problem, and when it ends. `orchestration.alerts` decides
what to say.

A tick asks the service for its status, which it shares with the other sensors, and Dagster for runs; once a minute for
checks. It needs no Spark. A message that cannot be sent makes the tick fail, or is its reason to skip while it waits
for the next try. Dagster keeps no cursor of a failed tick, so the state stays in memory until a later tick writes it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import dagster as dg

from cdc_core.errors import ConfigError, SluiceError
from orchestration.alerts.incidents import (
    Heard,
    Look,
    State,
    follow,
    kept,
    kind_of,
    news,
    not_told,
    subject_of,
    told,
)
from orchestration.alerts.kinds import Kind
from orchestration.alerts.messages import Message, written
from orchestration.alerts.receivers import SENDING, SHARED, AlertNotSent, opened
from orchestration.alerts.rules import AlertRules, ReceiverRule
from orchestration.internals import job_of_process, kept_instance
from orchestration.names import MERGED
from orchestration.sensors.conditions import of_checks, of_runs, of_silence, of_status
from orchestration.sensors.round import Connect, Round
from orchestration.settings import Settings

INTERVAL = 30  # seconds between ticks
_OF_CHECKS = frozenset({Kind.CHECKS, Kind.QUARANTINED, Kind.WARNINGS})
_SAID_BY_CHECKS = _OF_CHECKS | {Kind.BLOCKED}  # the last one of tables that land first; of others the service says it
_CHECKS_SECONDS = 60.0  # between looks at checks
_SENDING_SECONDS = 25.0  # of a tick, after which no further message is begun; Dagster gives up after 60

Send = Callable[[ReceiverRule, Message], None]
Clock = Callable[[], float]


def alerts_sensor(
    settings: Settings,
    checks: Sequence[dg.AssetCheckKey],
    connect: Connect,
    shared: Round,
    send: Send = SHARED.send,
    clock: Clock = time.time,
) -> dg.SensorDefinition:
    """Returns the sensor of a destination with `alerts`. A receiver whose URL is wrong is logged at once, and fails the
    ticks; the destination's rows go on."""
    rules = settings.alerts
    assert rules is not None
    teller = Teller(settings, rules, checks, connect, shared, send, clock)
    if not job_of_process():  # a run sends nothing
        teller.check()

    @dg.sensor(
        name=f"{settings.names.safe}_alerts",
        minimum_interval_seconds=INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Alerts {', '.join(rule.name for rule in rules.to)} to problems of {settings.destination}.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        return teller.tick(kept_instance(context), context.cursor)

    return sensor


@dataclass(slots=True)
class Teller:
    """What one sensor does, and the state that no cursor has yet: `_state`, made of the cursor `_before`. `_wrong` are
    the receivers whose URL was found to be wrong."""

    settings: Settings
    rules: AlertRules
    checks: Sequence[dg.AssetCheckKey]
    connect: Connect
    shared: Round
    send: Send
    clock: Clock
    _state: State | None = None
    _before: str | None = None
    _checked: float = -math.inf
    _wrong: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """Logs which receivers have a URL that is wrong."""
        for rule in self.rules.to:
            try:
                opened(rule)
            except ConfigError as error:
                self._wrong.add(rule.name)
                logging.getLogger("dagster").error("%s: %s", self.settings.destination, error)

    def tick(self, instance: dg.DagsterInstance, cursor: str | None) -> dg.SensorResult:
        """Looks, sends what is news, and returns what Dagster keeps. Raises ConfigError, AlertNotSent if a message that
        was tried could not be sent."""
        with self._lock:  # of a tick that Dagster has given up, which goes on all the same
            return self._tick(instance, cursor)

    def _tick(self, instance: dg.DagsterInstance, cursor: str | None) -> dg.SensorResult:
        known = self._state if self._state is not None and cursor == self._before else State.from_cursor(cursor)
        look, now = self._look(instance, known), self.clock()
        incidents = follow(known.incidents, look, now)
        state = State(incidents, {rule.name: self._heard(rule, known, now) for rule in self.rules.to})
        failed = list[SluiceError]()
        until = time.monotonic() + _SENDING_SECONDS
        for rule in self.rules.to:
            heard, error = self._tell(rule, state, look, until)
            state = replace(state, heard={**state.heard, rule.name: heard})
            self._state, self._before = state, cursor
            if error is not None:
                failed.append(error)
        if failed:
            raise _together(failed) from None
        return dg.SensorResult(skip_reason=dg.SkipReason(self._said(state, now)), cursor=state.cursor)

    def _heard(self, rule: ReceiverRule, known: State, now: float) -> Heard:
        return kept(known.heard.get(rule.name, Heard()), self.rules.of(rule), now)

    def _look(self, instance: dg.DagsterInstance, known: State) -> Look:
        chosen, now = self.rules.chosen, self.clock()
        found = self._service(now)
        conditions, unknown = list(found.conditions), set(found.unknown)
        if Kind.RUNS in chosen:
            failing = [subject_of(key) for key in known.incidents if kind_of(key) == Kind.RUNS]
            conditions += of_runs(instance, self.settings, self.rules.failures, failing)
        unseen: set[str] = set()
        if chosen & _SAID_BY_CHECKS:
            if time.monotonic() - self._checked >= _CHECKS_SECONDS:
                conditions += of_checks(instance, self.settings.names, self.checks)
                self._checked = time.monotonic()
            else:
                unknown |= _OF_CHECKS
                unseen = {one for one in known.incidents if _is_of_check(one)}
        return Look([one for one in conditions if one.kind in chosen], unknown, unseen)

    def _service(self, now: float) -> Look:
        try:
            return of_status(self.settings, self.shared.status(self.settings.destination, self.connect), now)
        except SluiceError as error:
            return of_silence(self.settings, error)

    def _tell(self, rule: ReceiverRule, state: State, look: Look, until: float) -> tuple[Heard, SluiceError | None]:
        """Returns what the receiver knows afterwards, and the error of a message that could not be sent."""
        heard, now = state.heard[rule.name], self.clock()
        if rule.name in self._wrong and now >= heard.retry:
            try:
                opened(rule)
            except ConfigError as error:
                return not_told(heard, now), error
            self._wrong.remove(rule.name)
        conditions = {one.key: one for one in look.conditions}
        for one in news(state.incidents, look, heard, self.rules.of(rule), now):
            if time.monotonic() > until:
                break
            message = written(
                self.settings.destination, one, conditions, state.incidents, heard, now, self.rules.dagster
            )
            if not SENDING.acquire(blocking=False):
                break
            try:
                self.send(rule, message)
            except (ConfigError, AlertNotSent) as error:
                return not_told(heard, now), error
            finally:
                SENDING.release()
            heard = told(heard, one, state.incidents, now)
        return heard, None

    def _said(self, state: State, now: float) -> str:
        """What Dagster shows of a tick that sent all that it had to."""
        late = [
            f"{name} takes no messages; next try in {heard.retry - now:.0f} s"
            for name, heard in state.heard.items()
            if heard.failures and heard.retry > now
        ]
        lasting = sum(one.open for one in state.incidents.values())
        return "; ".join(late) or (f"reported before: {lasting}; nothing is new" if lasting else "nothing is wrong")


def _is_of_check(key: str) -> bool:
    """Whether the incident is that of a table that lands first and is blocked."""
    return kind_of(key) == Kind.BLOCKED and subject_of(key).endswith(f" {MERGED}")


def _together(errors: Sequence[SluiceError]) -> SluiceError:
    if len(errors) == 1:
        return errors[0]
    text = "; ".join(f"{one.message} at {one.place}" for one in errors)
    return AlertNotSent(text, place=f"{len(errors)} receivers", hint=errors[0].hint)

"""Sends the alarms of the monitor: each cluster's to each receiver, once when it begins and once when it ends.

A thread of its own sends, so that a receiver that hangs holds up no look. What was said is known to this process alone:
a monitor that starts again says what lasts once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cdc_core.errors import SluiceError
from cdc_core.monitor.looking import Findings
from cdc_core.monitor.rules import TroubleKind
from orchestration.alerts.incidents import Condition, Heard, Incident, Look, State, follow, kept, news, not_told, told
from orchestration.alerts.kinds import Kind
from orchestration.alerts.messages import Message, written
from orchestration.alerts.receivers import Receiver, opened, send

_KINDS: Mapping[TroubleKind, Kind] = {one: Kind(one.value) for one in TroubleKind}
_ALL = frozenset(_KINDS.values())
_ANYBODY = "anybody"  # in the place of a receiver: the messages themselves could not be made
_KNOWN_WHILE_AWAY = frozenset({Kind.CLUSTER, Kind.FLAPPING})


@dataclass(frozen=True, slots=True)
class NamedReceiver:
    """Where alarms go: to the URL in an environment variable, or in a file."""

    url_env: str = ""
    url_file: str = ""

    @property
    def name(self) -> str:
        return f"${self.url_env}" if self.url_env else self.url_file


def look_of(found: Findings, cluster: str) -> Look:
    """What is wrong with a cluster, in the words of alerts. Pure."""
    seen = {one.key for one in found.verdict.troubles}
    conditions = [
        Condition(_KINDS[one.trouble.kind], one.trouble.subject, one.trouble.text, one.trouble.remedy, one.began)
        for key, one in found.alarms.now.items()
        if key[0] == cluster and key in seen
    ]
    unknown = _ALL - _KNOWN_WHILE_AWAY if cluster in found.verdict.away else frozenset()
    keys = frozenset(f"{kind}:{subject}" for name, kind, subject in found.verdict.unknown if name == cluster)
    return Look(conditions, unknown, keys)


class MonitorAlarms:
    """`look` takes what was found, between `start` and `stop`. `failures` are the receivers that took nothing last."""

    def __init__(
        self,
        receivers: Sequence[NamedReceiver],
        page: str = "",
        deliver: Callable[[Receiver, Message], None] = send,
    ) -> None:
        self.failures: Mapping[str, str] = {}
        self._receivers, self._page, self._deliver = tuple(receivers), page, deliver
        self._states: dict[str, State] = {}
        self._found: Findings | None = None
        self._awake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)

    def __repr__(self) -> str:
        return f"<MonitorAlarms to {len(self._receivers)} receivers>"

    def start(self) -> None:
        """Raises ConfigError for a receiver whose URL is wrong, and where apprise is not installed."""
        for one in self._receivers:
            opened(one)
        self._thread.start()

    def look(self, found: Findings) -> None:
        """Returns at once. While a message is sent only the newest look counts."""
        self._found = found
        self._awake.set()

    def stop(self) -> None:
        self._stop.set()
        self._awake.set()

    def _run(self) -> None:
        while self._awake.wait() and not self._stop.is_set():
            self._awake.clear()
            if (found := self._found) is not None:
                self._try(found)

    def _try(self, found: Findings) -> None:
        """Sends the news of one look. A failure is logged; the next look is sent again."""
        try:
            self.tell(found)
        except Exception as error:
            self.failures = {**self.failures, _ANYBODY: type(error).__name__}
        else:
            self.failures = {name: why for name, why in self.failures.items() if name != _ANYBODY}

    def notes(self) -> list[str]:
        """What the page says of receivers."""
        return [f"Alarms do not reach {name}: {why}" for name, why in self.failures.items()]

    def tell(self, found: Findings) -> None:
        """Sends what is news."""
        for cluster in found.picture.clusters:
            self._tell(cluster.name, found)

    def _tell(self, cluster: str, found: Findings) -> None:
        state, look, now = self._states.get(cluster, State()), look_of(found, cluster), found.picture.at
        incidents = follow(state.incidents, look, now)
        heard = {
            one.name: self._heard(
                cluster, one, incidents, look, kept(state.heard.get(one.name, Heard()), _ALL, now), now
            )
            for one in self._receivers
        }
        self._states[cluster] = State(incidents, heard)

    def _heard(
        self,
        cluster: str,
        receiver: NamedReceiver,
        incidents: Mapping[str, Incident],
        look: Look,
        heard: Heard,
        now: float,
    ) -> Heard:
        conditions = {one.key: one for one in look.conditions}
        for one in news(incidents, look, heard, _ALL, now):
            message = written(cluster, one, conditions, incidents, heard, now, self._page)
            try:
                self._deliver(receiver, message)
            except SluiceError as error:
                self.failures = {**self.failures, receiver.name: error.message}
                return not_told(heard, now)
            self.failures = {name: why for name, why in self.failures.items() if name != receiver.name}
            heard = replace(told(heard, one, incidents, now), failures=0)
        return heard

"""The monitor's loop: it looks at every cluster and source at a time of each one's own, and judges what came.

A cluster or a source that hangs holds nobody up: its last answer counts for a while, or until its call ends. Sources
that have not answered well are asked by their own threads, as anybody who writes cursors may name them. Nothing is
written anywhere; a monitor that starts again begins without a history.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from cdc_core.monitor.alarms import Alarms
from cdc_core.monitor.picture import Picture
from cdc_core.monitor.reading import ClusterReader
from cdc_core.monitor.rules import AlarmLimits, Verdict, judged
from cdc_core.monitor.sources import AskedSource, MySqlAccounts, SourceView, shown
from cdc_core.monitor.views import ClusterView
from cdc_core.monitor.watch import Watch, watched

_SOURCE_SECONDS = 10.0  # between two questions to a source, at least
_SOURCE_THREADS = 8
_STALE = 60.0  # seconds after which a source's last answer counts no more


@dataclass(frozen=True, slots=True)
class Findings:
    """What the last look found. `seconds`: how long it took."""

    picture: Picture = field(default_factory=Picture)
    verdict: Verdict = field(default_factory=Verdict)
    alarms: Alarms = field(default_factory=Alarms)
    seconds: float = 0.0


class ClusterMonitor:
    """`clusters` are ZooKeeper's hosts, each with its chroot. `ignored` are names of destinations, with wildcards.
    `patience`: for how many seconds a look waits for all answers of the clusters, and again of the sources."""

    def __init__(
        self,
        clusters: Sequence[str],
        accounts: MySqlAccounts,
        *,
        auth: str = "",
        limits: AlarmLimits | None = None,
        every: float = 5.0,
        ignored: Iterable[str] = (),
        patience: float = 2.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.every, self.limits, self._patience = every, limits or AlarmLimits(), patience
        self._readers = [ClusterReader(one, auth, connect_seconds=patience) for one in clusters]
        self._accounts, self._ignored, self._clock = accounts, tuple(ignored), clock
        self._views: dict[str, ClusterView] = {}
        self._sources: dict[str, AskedSource] = {}
        self._answers: dict[str, SourceView] = {}
        self._running: dict[str, Future[None]] = {}
        self._of_clusters = ThreadPoolExecutor(max(1, len(clusters)), "monitored cluster")
        self._of_sources = ThreadPoolExecutor(_SOURCE_THREADS, "monitored source")
        self._of_doubtful = ThreadPoolExecutor(_SOURCE_THREADS, "doubtful source")
        self._watch = Watch()
        self.findings = Findings()

    def __repr__(self) -> str:
        return f"<ClusterMonitor of {len(self._readers)} clusters>"

    def run(self, on_look: Callable[[Findings], None], stop: threading.Event) -> None:
        """Looks until `stop` is set, and calls `on_look` after each look."""
        while not stop.is_set():
            began = time.monotonic()
            on_look(self.look())
            stop.wait(max(0.1, self.every - (time.monotonic() - began)))

    def look(self) -> Findings:
        """Looks once at everything, and returns what is known when all have answered, or patience ends."""
        began = time.monotonic()
        self._await([self._of_cluster(one) for one in self._readers])
        clusters = tuple(self._views.get(one.name, _waiting(one.name)) for one in self._readers)
        self._await(self._ask(_named(clusters)))
        now = self._clock()
        answers = {address: fresh(self._answers[address], now) for address in self._sources if address in self._answers}
        self._watch, picture = watched(self._watch, clusters, answers, now, self.limits.changes_seconds)
        verdict = judged(picture, self._watch, self.limits)
        alarms = self.findings.alarms.after(verdict, now)
        self.findings = Findings(picture, verdict, alarms, time.monotonic() - began)
        return self.findings

    def close(self) -> None:
        for pool in (self._of_clusters, self._of_sources, self._of_doubtful):
            pool.shutdown(wait=True, cancel_futures=True)
        for reader in self._readers:
            reader.close()
        for source in self._sources.values():
            source.close()

    def _await(self, started: Iterable[Future[None]]) -> None:
        wait(list(started), timeout=self._patience + 0.5)

    def _of_cluster(self, reader: ClusterReader) -> Future[None]:
        def look() -> None:
            try:
                view = reader.look()
            except Exception as error:  # whatever it is, the other clusters are shown
                view = ClusterView(reader.name, away=f"the monitor cannot read it: {error!r}")
            kept = tuple(one for one in view.destinations if not self._ignores(one.name))
            self._views[reader.name] = replace(view, destinations=kept)

        return self._start(f"cluster {reader.name}", self._of_clusters, look)

    def _ignores(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._ignored)

    def _ask(self, addresses: set[str]) -> list[Future[None]]:
        for address in [one for one in self._sources if one not in addresses]:
            self._of_sources.submit(self._sources.pop(address).close)
            self._answers.pop(address, None)
            self._running.pop(f"source {address}", None)
        for address in addresses - self._sources.keys():
            self._sources[address] = AskedSource(address, self._accounts.settings_of(address))
        now, often = self._clock(), max(_SOURCE_SECONDS, self.every)
        due = [
            one
            for address, one in self._sources.items()
            if not (answer := self._answers.get(address)) or not 0 <= now - answer.at < often - self.every / 2
        ]
        return [self._of_source(one) for one in due]

    def _of_source(self, source: AskedSource) -> Future[None]:
        def ask() -> None:
            now = self._clock()
            try:
                self._answers[source.address] = source.ask(now)
            except Exception as error:  # of a server that answers as none of MySQL's does
                why = shown(f"not understood: {error!r}")
                self._answers[source.address] = SourceView(source.address, now, error=why)

        last = self._answers.get(source.address)
        pool = self._of_sources if last and not last.error else self._of_doubtful
        return self._start(f"source {source.address}", pool, ask)

    def _start(self, name: str, pool: ThreadPoolExecutor, work: Callable[[], None]) -> Future[None]:
        """The work that goes on under this name, or a new one."""
        running = self._running.get(name)
        if running is None or running.done():
            running = self._running[name] = pool.submit(work)
        return running


def _waiting(name: str) -> ClusterView:
    return ClusterView(name, away=f"ZooKeeper at {name} has not answered yet")


def fresh(answer: SourceView, now: float) -> SourceView:
    """The answer, or that there is none any more."""
    if answer.error or now - answer.at < _STALE:
        return answer
    return SourceView(answer.address, answer.at, error=f"it has not answered for {now - answer.at:.0f} s")


def _named(clusters: tuple[ClusterView, ...]) -> set[str]:
    """The sources that cursors name."""
    return {client.source for _, _, client in Picture(clusters=clusters).clients() if client.source}

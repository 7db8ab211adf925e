"""Monitors without their loop: what they found is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_core.monitor.alarms import Alarms
from cdc_core.monitor.looking import Findings
from cdc_core.monitor.rules import AlarmLimits, Verdict, judged
from cdc_core.monitor.sources import SourceView
from cdc_core.monitor.views import ClusterView
from cdc_core.monitor.watch import Watch, watched
from cdc_core.position import EntryPosition
from cdc_core.source.journals import BinaryLog, Journals

NOW = 1_795_253_010.0
SOURCE = "localhost:33061"
LOGS = (BinaryLog("mysql-bin.000001", 1000), BinaryLog("mysql-bin.000002", 2000), BinaryLog("mysql-bin.000003", 300))
END = EntryPosition("mysql-bin.000003", 300)


def source(keep: float = 86_400.0) -> SourceView:
    """A server with three files."""
    return SourceView(SOURCE, NOW, Journals(LOGS, END), keep)


@dataclass
class Looks:
    """`every` and `findings` are as of a monitor."""

    limits: AlarmLimits = field(default_factory=AlarmLimits)
    now: float = NOW
    watch: Watch = field(default_factory=Watch)
    alarms: Alarms = field(default_factory=Alarms)
    verdict: Verdict = field(default_factory=Verdict)
    findings: Findings = field(default_factory=Findings)
    every: float = 1.0

    def look(self, *clusters: ClusterView, after: float = 5.0, one: SourceView | None = None) -> list[str]:
        """The kinds of trouble. `one` is the source of all cursors."""
        return self.look_at(clusters, {SOURCE: one} if one else {}, after)

    def look_at(self, clusters: tuple[ClusterView, ...], sources: Mapping[str, SourceView], after: float) -> list[str]:
        self.now += after
        self.watch, picture = watched(self.watch, clusters, sources, self.now, self.limits.changes_seconds)
        self.verdict = judged(picture, self.watch, self.limits)
        self.alarms = self.alarms.after(self.verdict, self.now)
        self.findings = Findings(picture, self.verdict, self.alarms, 0.1)
        return [one.kind for one in self.verdict.troubles]

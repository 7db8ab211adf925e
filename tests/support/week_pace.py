"""A week in less: what of Sluice's time is made fast by keys that it has, and what is not, with the reason.

Work is not made fast: a transaction, a batch and a run take what they take. So there are as many of them as fit, and
what is kept for a time is kept for the same part of the soak as of a week.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

WEEK = 7 * 86_400.0  # seconds


class Slow(NamedTuple):
    """What has no key, or none that is short enough."""

    what: str
    why: str


SLOW = (
    Slow("files that Delta's newest version does not need", "VACUUM keeps a week at least"),
    Slow("commits of a _delta_log", "delta.logRetentionDuration is a week at least, cut by days"),
    Slow("rows of change logs", "log_retention is 7d at least"),
    Slow("old files of the ledger", "deleted a day later, each 200 commits"),
    Slow("what a killed run left in staging", "removed by a run a day later"),
    Slow("Dagster's ticks", "sluice_old_runs keeps an hour, and those that started runs a week"),
    Slow("failed runs, and those of jobs", "sluice_old_runs keeps them 30 days at least"),
    Slow("sluice_old_runs itself", "looks every 10 minutes"),
    Slow("observations of the store", "one in 10 s at most, kept for ever"),
    Slow("definitions that were replaced", "tsdb.snapshot.expire is an hour at least"),
    Slow("definitions in memory", "looked at from 1,000 on"),
    Slow("Spark's sessions that nobody ended", "kept for 24 h"),
    Slow("logs of the processes", "nothing turns them over"),
)


@dataclass(frozen=True, slots=True)
class Pace:
    """Of a soak of so many `seconds`."""

    seconds: float

    def of(self, seconds: float, least: float = 0.0) -> float:
        """Returns a time of a week as a time of the soak."""
        return max(least, seconds * self.seconds / WEEK)

    def daily(self, share: float = 0.0) -> str:
        """Returns the cron expression of what happens once a day, so much of a day later. It counts whole minutes."""
        minutes = min(59, max(1, round(self.of(86_400) / 60)))
        return f"{int(share * minutes)}-59/{minutes} * * * *"

    @property
    def mysql(self) -> Mapping[str, int]:
        """Options of the source, whose binlogs are kept for three days, in about two hundred files a week."""
        return {"binlog_expire_logs_seconds": round(self.of(3 * 86_400, 600)), "max_binlog_size": 1 << 20}

    @property
    def instance(self) -> Mapping[str, object]:
        """Keys of instance.properties."""
        return {
            "canal.instance.memory.buffer.size": 16_384,  # as shipped: the demo's is so large that it never fills
            "sluice.store.retention": f"{self.of(86_400) / 3600:.4f}",
            "sluice.store.bytes": 512 << 20,
            "sluice.lease.seconds": 15,
            "canal.instance.tsdb.snapshot.interval": 1,
            "canal.instance.tsdb.snapshot.expire": 1,
        }

    @property
    def defs(self) -> Mapping[str, object]:
        """Keys of defs.yaml."""
        return {
            "trigger": {"interval_seconds": 1},
            "max_seconds": round(self.of(3000, 30), 1),
            "linger_seconds": 2,
            "lease_seconds": 15,
            "report_seconds": round(self.of(900, 5), 1),
            "maintain": self.daily(),
            "audit": self.daily(0.5),
            "log_retention": "7d",
        }

    @property
    def runs_kept(self) -> float:
        """Seconds. Dagster's runs are kept for a day, as a week's would never be deleted here."""
        return self.of(86_400)

    @property
    def variables(self) -> Mapping[str, str]:
        """Of Dagster's processes."""
        return {"SLUICE_RUNS_KEPT_DAYS": f"{self.runs_kept / 86_400:.6f}"}

    def lines(self) -> list[str]:
        """What is fast, for a report."""
        expire = self.mysql["binlog_expire_logs_seconds"]
        rows = (
            ("a week", f"{self.seconds / 60:.0f} min"),
            ("binlog_expire_logs_seconds: 3 days", f"{expire} s"),
            ("sluice.store.retention: 24 h", f"{self.of(86_400):.0f} s"),
            ("sluice.lease.seconds, lease_seconds: 60 s", "15 s"),
            ("max_seconds of a run: 3000 s", f"{self.defs['max_seconds']} s"),
            ("report_seconds: 900 s", f"{self.defs['report_seconds']} s"),
            ("SLUICE_RUNS_KEPT_DAYS: a day", f"{self.runs_kept:.0f} s"),
            ("maintain, audit: each day", str(self.defs["maintain"])),
            ("canal.instance.tsdb.snapshot.interval, expire: 24 h, 15 days", "1 h"),
        )
        return [f"  {what:<60} {here:>17}" for what, here in rows]

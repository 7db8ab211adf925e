"""The stack of a week's soak: the parts of the faults' stack, with fast times, jobs started as by its page, and probes.

It promises nothing about load or faults: `week` brings these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import httpx
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

from cdc_core.errors import PositionError, SluiceError
from orchestration.demo.files import DESTINATION
from orchestration.jobs.by_hand import run_config
from orchestration.stack.process import Process
from tests.faults.stack import Stack
from tests.support import probes
from tests.support.bank import DATABASE, TABLES
from tests.support.delta_logs import LakeProbe
from tests.support.samples import Counted, Probe, Seldom, away
from tests.support.servers import kill_dumps
from tests.support.week_measures import ACKED, GO, ORPHANS, OVERDUE, RUNLESS, STAY
from tests.support.week_pace import Pace

_PATIENCE = 300.0  # seconds, for what a part refuses while another one comes back
_START = 900.0  # seconds that a part may take to start
_UNDONE = timedelta(minutes=2)  # how far back
_REASON = 200  # characters of one
_SELDOM = 4  # samples to one of a probe that costs much, in an hour
_LAUNCH = """mutation Launch($run: ExecutionParams!) {
  launchRun(executionParams: $run) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  }
}"""
_ROUTINE = f"status = 'SUCCESS' AND pipeline_name IN ('drain_{DESTINATION}', 'merge_logs_{DESTINATION}')"
_LOOK = 720  # seconds: the sensor that deletes old runs looks every ten minutes
_EVENTS = {
    RUNLESS: "SELECT count(*) FROM event_logs WHERE run_id = '' OR run_id IS NULL",
    ORPHANS: "SELECT count(*) FROM event_logs WHERE run_id <> '' AND run_id NOT IN (SELECT run_id FROM kept.runs)",
}
_GAUGES = {
    "sluice_unacked_batches": "claims out",
    "canal_instance_subscriptions": "clients",
    "sluice_schema_versions": "definitions",
}
_COUNTERS = {"sluice_acked_claims_total": ACKED.partition(": ")[2]}


def _runs(kept: float) -> dict[str, str]:
    """Returns the queries for numbers of runs, of which routine ones are kept so many seconds."""
    before = f"datetime('now', '-{kept + _LOOK:.0f} seconds')"
    return {
        GO: f"SELECT count(*) FROM runs WHERE {_ROUTINE}",
        STAY: f"SELECT count(*) FROM runs WHERE NOT ({_ROUTINE})",
        OVERDUE: f"SELECT count(*) FROM runs WHERE {_ROUTINE} AND update_timestamp < {before}",
    }


def reason_of(errors: Sequence[str]) -> str:
    """Returns the message of the first cause of a run's errors, without its stack trace."""
    for text in errors:
        *heads, _ = text.split("Stack Trace:") if "Stack Trace:" in text else (text, "")
        if lines := [line.strip() for line in heads[-1].splitlines() if line.strip()]:
            return lines[-1][:_REASON]
    return "no reason"


class WeekStack(Stack):
    """`temp` is what TMPDIR names for all parts."""

    def __init__(self, state: Path, temp: Path, pace: Pace) -> None:
        self.pace, self._temp = pace, temp
        super().__init__(state, pace.mysql, pace.variables)
        self.dagster_parts = {
            "code server": self.dagster.code_server,
            "daemon": self.dagster.daemon,
            "webserver": self.dagster.webserver,
        }
        for process in self.processes.values():
            process._timeout = _START  # a busy machine is no fault
        self.launched: list[str] = []  # runs
        self.said = ""  # by Dagster last, of a job that it did not launch

    @property
    def processes(self) -> dict[str, Process]:
        """The parts whose end would be their own fault, by name."""
        return {"mysql": self.mysql.process, "zookeeper": self.zookeeper, **self.watched}

    def start(self, parts: ExitStack) -> None:
        super().start(parts)
        self.mysql.execute(f"GRANT LOCK TABLES ON *.* TO '{self.mysql.user}'@'%'")  # for the table without a key

    def _write_conf(self, start: tuple[str, int]) -> None:
        super()._write_conf(start)
        keys = {**self.pace.instance, "sluice.store.dir": self.state / "store"}
        with (self.state / "conf" / DESTINATION / "instance.properties").open("a") as file:
            file.writelines(f"{key} = {value}\n" for key, value in keys.items())

    def _attributes(self) -> dict[str, object]:
        """One table lands first, so that there are change logs, and runs that merge them."""
        own = {
            "conf": str(self.state / "conf"),
            "snapshot": "when_needed",
            "apply": {"mode": "merge", "tables": {f"{DATABASE}.{TABLES[1]}": "land_first"}},
        }
        return super()._attributes() | own | dict(self.pace.defs)

    # -- what happens to it

    def kill(self, part: str) -> None:
        if part in self.dagster_parts:
            self.dagster_parts[part].kill()
        else:
            super().kill(part)

    def restart(self, part: str) -> None:
        if part in self.dagster_parts:
            self.dagster_parts[part].start()
        else:
            super().restart(part)

    def ended(self) -> list[str]:
        """The parts that do not run."""
        return [name for name, process in self.processes.items() if not process.running]

    def cut_dump(self) -> None:
        kill_dumps(self.mysql)

    def rewind(self, place: tuple[str, int]) -> None:
        """Sets the cursor back to a place of the source, unless the source has purged it, or it is ahead of the cursor
        and would skip rows."""
        to = {"journalName": place[0], "position": place[1]}

        def rewound() -> bool:
            with suppress(PositionError), self.connector() as connector:
                reset, client = connector.by_hand.reset, connector.client_id
                behind = all(move.skipped_bytes == 0 for move in reset(to, client_id=client).clients)
                return not behind or reset(to, client_id=client, dry_run=False).done
            return True

        self.wait("the rewind", _PATIENCE, rewound)

    def launch(self, verb: str, **config: object) -> str:
        """Starts the job of a verb as the launchpad does. Returns the id of the run."""
        job = f"{verb}_{DESTINATION}"
        selector = {"repositoryLocationName": "sluice", "repositoryName": "__repository__", "jobName": job}
        run = {"selector": selector, "runConfigData": run_config(job, reason="a week in an hour", **config)}

        def launched() -> str | None:
            with suppress(httpx.HTTPError, ValueError):
                body = {"query": _LAUNCH, "variables": {"run": run}}
                answer = httpx.post(f"{self.dagster.url}/graphql", json=body, timeout=60, trust_env=False).json()
                found = answer["data"]["launchRun"]
                if found["__typename"] == "LaunchRunSuccess":
                    self.launched.append(str(found["run"]["runId"]))
                    return self.launched[-1]
                self.said = f"{job}: {found}"
            return None

        try:
            return self.wait(f"Dagster to launch {job}", _PATIENCE, launched)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.said}") from error

    def stopped(self) -> Sequence[str]:
        """The tables that are stopped, or wait for their snapshots."""
        with self.connector() as connector:
            client = connector.client_status()
        return sorted({*(one.table for one in client.stopped), *(one.table for one in client.snapshots)})

    def undo(self, table: str) -> None:
        """Undoes what the last batches did to a table, if they changed it."""
        since = (datetime.now(UTC) - _UNDONE).isoformat()
        self.launch("undo", tables=[table], since=since, dry_run=False)

    def backlog(self) -> tuple[int, int] | None:
        """The rows and the statements that wait for the lake; None while the service does not say."""
        with suppress(SluiceError), self.connector() as connector:
            client = connector.client_status()
            return client.waiting, client.backlog_ddl
        return None

    def reached(self) -> str:
        """Where the lake stands, "" while the service does not say."""
        with suppress(SluiceError), self.connector() as connector:
            if cursor := connector.client_status().cursor:
                return f"{cursor.journal_name}:{cursor.position}"
        return ""

    def settle(self, seconds: float, undone: Sequence[str] = ()) -> None:
        """Waits until jobs have ended and no table is stopped. What the stream cannot complete is reloaded by Dagster's
        sensor, and by a copy if that is not enough. Tables of which something was `undone` are copied in any case."""
        self.wait("jobs to end", seconds, lambda: not self._jobs())
        with suppress(AssertionError):
            self.wait("tables to be reloaded", seconds / 2, lambda: not self.stopped())
        if tables := sorted({*self.stopped(), *undone}):
            self.launch("copy", tables=tables)
            self.wait("tables to be copied", seconds, lambda: not self._jobs())
            assert not (left := self.stopped()), f"still stopped: {left}; see {self.state}"

    def _jobs(self) -> list[str]:
        """The runs that were launched here and have not ended: schedules go on."""
        unfinished = dg.RunsFilter(run_ids=self.launched, statuses=NOT_FINISHED_STATUSES)
        if not self.launched:
            return []
        return [run.run_id for run in self.instance.get_runs(unfinished)]

    def failed(self) -> Counter[str]:
        """How often runs of each job failed, by their reason."""
        found = Counter[str]()
        for run in self.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])):
            found[f"{run.job_name}: {reason_of(self.errors(run.run_id))}"] += 1
        return found

    # -- what is sampled

    def lives(self) -> Mapping[str, int]:
        """The processes that are watched. The others are killed until the end, and nothing of theirs is judged."""
        return {name: pid for name, process in self.watched.items() if (pid := process.pid) is not None}

    @property
    def watched(self) -> dict[str, Process]:
        return {"service": self.service, "spark": self.spark, **self.dagster_parts}

    def probes(self) -> list[Probe]:
        home, lake, url = self.dagster.home, Path(self.lake.root), self.service.url
        records, logs = home / "records", ("code.log", "daemon.log", "webserver.log")
        own = lake / "_sluice" / DESTINATION
        ledger = Path(self.lake.ledger_path(DESTINATION, 1001))
        costly: list[Probe] = [
            away(OSError, ValueError)(LakeProbe(lake, ledger)),  # a table may be moved away at that moment
            probes.databases("dagster", records, home / "ticks"),
            probes.query(records / "runs.db", _runs(self.pace.runs_kept)),
            probes.query(records / "event_log.db", _EVENTS, kept=records / "runs.db"),
            probes.folder("dagster files", home, but={"records", "ticks", *logs}),
            probes.folder("scratch", self.spark.scratch),
        ]
        return [
            *(probes.process(name, process) for name, process in self.watched.items()),
            probes.metrics("service", url, _GAUGES),
            Counted(probes.metrics("service", url, _COUNTERS)),
            probes.zookeeper(int(self.zookeeper.hosts.rpartition(":")[2])),
            probes.connections(self.mysql.root),
            probes.folder("binlogs", self.state / "mysql" / "data", only="mysql-bin.[0-9]*"),
            probes.folder("store", self.state / "store"),
            probes.folder("temp", self._temp),
            probes.folder("staging", own / "staging"),
            probes.folder("logs", self.service.log, self.spark.log, *(home / name for name in logs)),
            *(Seldom(probe, max(1, round(_SELDOM * self.pace.seconds / 3600))) for probe in costly),
        ]

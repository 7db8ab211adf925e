"""What is wrong with a destination at the moment: by the service's status, and by Dagster's runs and checks.

Each function looks at one place and returns conditions; none of them decides what is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

import dagster as dg

from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.status import Status
from cdc_core.contract.stopped_table import BLOCKED
from cdc_core.errors import SluiceError, naming
from orchestration.alerts.incidents import Condition, Look
from orchestration.alerts.kinds import Kind
from orchestration.alerts.messages import length
from orchestration.first_rows import waiting
from orchestration.freshness import parse_freshness, parse_length
from orchestration.internals import SCHEDULE_NAME_TAG, SENSOR_NAME_TAG, AssetCheckExecutionRecord
from orchestration.names import BUILT_IN, JOB_TAG, MERGED, Names
from orchestration.sensors.runs import summarize
from orchestration.settings import Settings
from spark_jobs.lake.consent import waiting_ones

_RECENT_RUNS = 30  # of the jobs of a destination
_NEAR = 0.1  # of the time that the source keeps a binlog
_OWN_KINDS = {"takes_changes", "lag_seconds"}  # checks that say what a kind of its own says: `stopped`, `lag`
_NEWS = {"schema_change"}  # checks of what has happened: it is not over at some time
_STOPS = frozenset({Kind.STOPPED, Kind.BLOCKED})
_OF_STATUS = _STOPS | {Kind.LAG, Kind.BINLOG, Kind.DESTINATION}


def of_silence(settings: Settings, error: SluiceError) -> Look:
    """What is known where the service does not answer, or refuses."""
    hint = naming(error.hint, settings.destination)
    condition = Condition(Kind.SERVICE, settings.service.place, error.message, hint, page=_store(settings))
    return Look([condition], _OF_STATUS)


def of_status(settings: Settings, status: Status | None, now: float) -> Look:
    """What is wrong by the service's status, None for a destination that it does not know."""
    if status is None:
        text = f"the service at {settings.service.place} has no destination of this name"
        remedy = "Correct `destination` in defs.yaml, or give the service its instance.properties."
        condition = Condition(Kind.DESTINATION, settings.destination, text, remedy, page=_store(settings))
        return Look([condition], _STOPS | {Kind.LAG, Kind.BINLOG})
    found, unknown = list(_trouble(settings, status)), set[Kind]()
    client = status.client(settings.client_id)
    if client is None:
        unknown |= _STOPS
    else:
        found += _stopped(settings, client, now)
    if status.state != "running" and status.lag_seconds is None:
        unknown.add(Kind.LAG)
    found += _lag(settings, status, now)
    if status.binlog is None:
        unknown.add(Kind.BINLOG)
    found += _binlog(settings, status)
    return Look(found, unknown)


def _trouble(settings: Settings, status: Status) -> Iterator[Condition]:
    name, page = settings.destination, _store(settings)
    if status.error is not None:
        error = status.error.as_error()
        at = f" at {error.place}" if error.place else ""
        word = "it has failed: " if status.state == "failed" else ""
        text, hint = f"{word}{error.message}{at}", naming(error.hint, name)
        yield Condition(Kind.DESTINATION, name, text, hint, status.error.since, page)
    elif status.state == "stopped" and status.note:
        remedy = f"`sluice destination start {name}`, or the job resume_{settings.names.safe} with `*`, starts it."
        yield Condition(Kind.DESTINATION, name, f"it was {status.note}", remedy, page=page)


def _stopped(settings: Settings, client: ClientStatus, now: float) -> Iterator[Condition]:
    """Tables that wait for a snapshot that comes by itself, or is being read, are not in trouble. Those that wait for a
    person's consent are: a snapshot that was open by then does not take them over."""
    coming = {one.table for one in client.snapshots}
    if settings.snapshot != "never":
        coming |= set(waiting(client, now, complete=settings.snapshot == "when_needed"))
    coming -= {*waiting_ones(client.stopped)}
    for stop in client.stopped:
        if stop.table not in coming:
            hint = naming(stop.hint, settings.destination)
            page = _asset(settings.names.delta(stop.table))
            kind = Kind.BLOCKED if stop.is_blocked else Kind.STOPPED
            yield Condition(kind, stop.table, stop.reason, hint, page=page)


def _lag(settings: Settings, status: Status, now: float) -> Iterator[Condition]:
    lag, promised = status.lag_seconds, promised_lag(settings)
    if lag is None or promised is None or lag <= promised:
        return
    text = f"rows wait for {length(lag)}, of {length(promised)} that they may"
    remedy = (
        f"Look at the runs of {settings.names.job} and at the sensor cdc_{settings.names.safe}_backlog in Dagster; "
        f"`sluice positions {settings.destination}` shows how much is left."
    )
    since = now - (lag - promised)
    yield Condition(Kind.LAG, settings.destination, text, remedy, since, _store(settings))


def promised_lag(settings: Settings) -> float | None:
    """How many seconds the lake may be behind: as `alerts` say, else as the freshness says; None where runs start by
    the clock, and their times are not known here."""
    if settings.alerts is not None and settings.alerts.lag:
        return parse_length(settings.alerts.lag)
    if settings.starts.kind == "schedule":
        return None
    gathers = settings.trigger.freshness_seconds if settings.trigger.minimum_rows > 1 else 0.0
    return parse_freshness(settings.freshness).seconds or max(settings.lag_warning_seconds, gathers)


def _binlog(settings: Settings, status: Status) -> Iterator[Condition]:
    report = status.binlog
    if report is None or settings.client_id not in report.clients:
        return
    left, name, page = report.clients[settings.client_id], settings.destination, _store(settings)
    if left is None:
        text = f"the binlog at the cursor of client {settings.client_id} is gone; the oldest is {report.oldest}"
        remedy = (
            f"`sluice reset {name} --anew --yes`, then `sluice snapshot {name} --lake LAKE --conf CONF`, if the "
            "destination does not go on from its store on disk."
        )
        yield Condition(Kind.BINLOG, name, text, remedy, page=page)
        return
    keep = report.keep_seconds or 0.0
    rules = settings.alerts
    near = parse_length(rules.binlog) if rules is not None and rules.binlog else keep * _NEAR
    if left.seconds is not None and left.seconds < near:
        when = f"in {length(left.seconds)}" if left.seconds > 0 else "at the next rotation"
        text = f"the binlog at the cursor of client {settings.client_id} may be purged {when}"
        longer = f", and until then keep binlogs longer: {report.twice}" if report.twice else "."
        remedy = f"Find out why rows are not drained{longer}"
        yield Condition(Kind.BINLOG, name, text, remedy, page=page)


def of_runs(
    instance: dg.DagsterInstance, settings: Settings, most: int, known: Iterable[str] = ()
) -> Iterator[Condition]:
    """The jobs that Dagster starts by itself and that failed `most` times in a row, or once where a schedule starts
    them. `known` jobs have failed so: each is looked for by its name, as runs of other jobs may have followed."""
    names, records = settings.names, list[dg.RunRecord]()
    for tags in (names.run_tags, names.merge_tags):
        records += instance.get_run_records(dg.RunsFilter(tags=tags), limit=most + 2)
    of_jobs = {JOB_TAG: settings.destination}
    records += instance.get_run_records(dg.RunsFilter(tags=of_jobs), limit=_RECENT_RUNS)
    jobs = defaultdict[str, list[dg.RunRecord]](list)
    for record in filter(_counts, records):
        jobs[record.dagster_run.job_name].append(record)
    for job in known:
        own = instance.get_run_records(dg.RunsFilter(job_name=job, tags=of_jobs), limit=_RECENT_RUNS)
        jobs[job] = [*filter(_counts, own)] or jobs[job]
    for job, its in sorted(jobs.items()):
        runs = summarize(its)
        last = next((one for one in its if one.dagster_run.run_id == runs.last), None)
        if last is None or not runs.failures:
            continue
        if runs.failures >= (1 if SCHEDULE_NAME_TAG in last.dagster_run.tags else most):
            yield _failing(instance, job, last, runs.failures)


def _counts(record: dg.RunRecord) -> bool:
    """Whether Dagster started the run by itself; a run of any other job than the drain's may be a person's."""
    tags = record.dagster_run.tags
    return JOB_TAG not in tags or bool({SENSOR_NAME_TAG, SCHEDULE_NAME_TAG} & tags.keys())


def _failing(instance: dg.DagsterInstance, job: str, last: dg.RunRecord, failures: int) -> Condition:
    run_id = last.dagster_run.run_id
    times = "the last run" if failures == 1 else f"the last {failures} runs"
    text = f"{times} failed, {run_id[:8]} with: {_reason(instance, run_id)}"
    remedy = f"Read the error of run {run_id[:8]} in Dagster: it names the remedy."
    return Condition(Kind.RUNS, job, text, remedy, last.end_time, f"runs/{run_id}")


def _reason(instance: dg.DagsterInstance, run_id: str) -> str:
    """The text of an error of Sluice. Any other one may hold what is not for a message; only its class is named."""
    found = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_FAILURE, limit=1).records
    event = found[0].event_log_entry.dagster_event if found else None
    if event is None:
        return "no step failed; see Dagster"
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    error = data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return (error.cls_name if error is not None else None) or "an error"


def of_checks(instance: dg.DagsterInstance, names: Names, keys: Sequence[dg.AssetCheckKey]) -> Iterator[Condition]:
    """The checks of a destination whose last evaluation failed, whoever declared them."""
    wanted = [key for key in keys if key.name not in _OWN_KINDS | _NEWS]
    for key, record in _latest(instance, wanted):
        event = record.event.dagster_event if record.event else None
        if event is None or event.event_type != dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            continue
        last = event.asset_check_evaluation_data
        if last.passed:
            continue
        kind = _kind(key, last)
        table = names.subject(key.asset_key)
        subject, hint = f"{table} {key.name}", last.metadata.get("hint")
        remedy = hint.value if isinstance(hint, dg.TextMetadataValue) and hint.value else ""
        if kind is Kind.QUARANTINED:
            at = f"{names.destination} {table}"
            remedy = (
                "Correct the rows at the source, or bring them into the table: "
                f"`sluice requeue {at}`, or `sluice drop {at}`."
            )
        text = last.description or "it failed"
        if remedy and text.endswith(remedy):
            text = text.removesuffix(remedy).rstrip()
        yield Condition(kind, subject, text, remedy, page=f"{_asset(key.asset_key)}?view=checks")


def _kind(key: dg.AssetCheckKey, last: dg.AssetCheckEvaluation) -> Kind:
    """The kind of a check that fails. What is expected of a table says how many rows wait; `merged`, of a table that
    lands first, that it is blocked, as the service says of others."""
    stop = last.metadata.get("kind")
    if key.name == MERGED and isinstance(stop, dg.TextMetadataValue) and stop.value == BLOCKED:
        return Kind.BLOCKED
    if last.severity != dg.AssetCheckSeverity.WARN:
        return Kind.CHECKS
    waiting = last.metadata.get("quarantined")
    waits = isinstance(waiting, dg.IntMetadataValue) and bool(waiting.value) and key.name not in BUILT_IN
    return Kind.QUARANTINED if waits else Kind.WARNINGS


def _latest(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey]
) -> Iterable[tuple[dg.AssetCheckKey, AssetCheckExecutionRecord]]:
    for at in range(0, len(keys), 500):
        yield from instance.event_log_storage.get_latest_asset_check_execution_by_key(keys[at : at + 500]).items()


def _store(settings: Settings) -> str:
    return _asset(settings.names.store)


def _asset(key: dg.AssetKey) -> str:
    return f"assets/{'/'.join(quote(part, safe='') for part in key.path)}"

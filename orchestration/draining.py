"""The drain of a destination for other schedulers than Dagster, by the code of its runs: claim, apply, check, ack.

    from orchestration.draining import drain

    drain("shop", defs="/etc/sluice/defs").check()

`sluice drain` is the same as a command.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from cdc_core import config
from cdc_core.contract.claim import Claim
from cdc_core.contract.doors import local_doors
from cdc_core.errors import ConfigError, LakeError
from cdc_core.serve import token_of
from orchestration.assets.checks import check_specs, expected_specs
from orchestration.assets.drain_asset import drained
from orchestration.assets.run import Log
from orchestration.assets.tally import tables_of
from orchestration.destination import canal_of, lake_of, landed_tables
from orchestration.loading import load_settings
from orchestration.names import Names
from orchestration.resources import CanalResource, LakeResource
from orchestration.settings import Limits, ServiceAddress, Settings
from spark_jobs.apply.result import BatchResult
from spark_jobs.union.settled import noted_unions

LINGER = 1.0  # seconds that a run without rows waits for some, where it is to end when nothing waits
_HINT = "Give the defs.yaml with which the lake was written, by --defs."


@dataclass(frozen=True, slots=True)
class DrainedBatch:
    """An acked batch: it is in the lake. `seconds`: from its claim to its ack."""

    batch_id: int
    rows: int
    tables: tuple[str, ...]
    seconds: float
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class RedCheck:
    """A check that failed, as Dagster would show it on its table. `warns`: it does not fail the run."""

    table: str
    check: str
    text: str
    warns: bool


@dataclass(frozen=True, slots=True)
class DrainedRun:
    """What a drain did. `checks`: those that are red at its end."""

    run_id: str
    batches: int
    rows: int
    checks: tuple[RedCheck, ...]

    @property
    def errors(self) -> tuple[RedCheck, ...]:
        """Returns the red checks that are more than warnings."""
        return tuple(one for one in self.checks if not one.warns)

    def check(self) -> None:
        """Raises LakeError if a check failed. All other tables have their rows, and the batches are acked."""
        if self.errors:
            wrong = "; ".join(f"{one.table}: {one.check}: {one.text}" for one in self.errors)
            raise LakeError(wrong, place=self.run_id, hint="`sluice status` shows each stopped table with its hint.")


@dataclass(slots=True)
class OwnRun:
    """A run that Dagster does not know: it has no events and no earlier verdicts, and gives way to nobody."""

    run_id: str
    log: Log
    on_batch: Callable[[DrainedBatch], None]
    instance: None = None
    until: None = None
    done: list[DrainedBatch] = field(default_factory=list)

    def log_event(self, event: Any, /) -> None:
        """Nobody keeps events."""

    def lines(self, _seconds: float, _clock: Callable[[], float]) -> OwnRun:
        return self

    def add(self, claim: Claim, batch: BatchResult, seconds: float, *, at_once: bool) -> None:  # noqa: ARG002
        tables = tuple(sorted(tables_of(batch)))
        place = str(claim.start), str(claim.end)
        self.done.append(DrainedBatch(claim.batch_id, claim.rows, tables, round(seconds, 3), *place))
        self.on_batch(self.done[-1])

    def write_due(self) -> None:
        """Each batch has its line at once."""

    def write(self) -> None:
        """Likewise."""

    def acked(self, claim: Claim) -> None:
        """`add` says it."""

    def leaves(self, until: int) -> None:
        """The next run takes what is left."""

    def others_wait(self) -> bool:
        return False


def drain(
    destination: str,
    *,
    lake: str = "",
    conf: str | Path | None = None,
    defs: str | Path | None = None,
    client: int = 1001,
    service: str | None = None,
    token: str = "",
    spark: str = "",
    spark_token: str = "",
    once: bool = False,
    seconds: float | None = None,
    run_id: str = "",
    on_batch: Callable[[DrainedBatch], None] = lambda _: None,
    log: Log | None = None,
) -> DrainedRun:
    """Claims, applies and acks what waits for a destination, batch after batch, until nothing waits; with `once` one
    batch or nothing. No batch begins after so many `seconds`.

    `defs`: a defs.yaml, or a folder of them, which names lake, service and Spark; other arguments replace what it says,
    but not the lake. Without it the destination's tables go to `lake` as with `sluice up` without one. `run_id` names
    the claims' owner: a try with the id of one that was killed gives back at once what that one held. `on_batch` is
    called after each ack.

    Raises SluiceError; what was claimed is given back then. A table that stops keeps no other from its rows: it is in
    the result's `checks`.
    """
    settings = _settings(destination, lake, conf, defs, client, service, spark)
    changes = {"token": token or _token(conf, service, defs)}
    canal = canal_of(settings, **{name: value for name, value in changes.items() if value})
    own_lake = lake_of(settings, **({"token": spark_token} if spark_token else {}))
    run = OwnRun(run_id or str(uuid.uuid4()), log or logging.getLogger("sluice.drain"), on_batch)
    return drain_with(run, settings, canal, own_lake, limits_of(settings, once=once, seconds=seconds), bool(defs))


def drain_with(
    run: OwnRun, settings: Settings, canal: CanalResource, lake: LakeResource, limits: Limits, declared: bool
) -> DrainedRun:
    """Drains with these resources. `declared`: by a defs.yaml."""
    with canal.connect() as connector:
        if not declared:
            _refuse_undeclared(settings, lake, connector.subscribe().rules)
        rules = settings.rules.rules
        tables = landed_tables(settings, [rules.view(schema) for schema in connector.tables()])
    specs = check_specs(settings, tables.merged, tables.logs) + expected_specs(settings, tables.merged, tables.expected)
    found = list(drained(run, settings, tables, limits, canal, lake, [spec.key for spec in specs]))
    red = tuple(_red(settings.names, one) for one in found if not one.passed)
    return DrainedRun(run.run_id, len(run.done), sum(one.rows for one in run.done), red)


def limits_of(settings: Settings, *, once: bool, seconds: float | None) -> Limits:
    """Returns the limits of a run that ends when nothing waits."""
    changes: dict[str, Any] = {"freshness": "", "linger_seconds": min(LINGER, settings.linger_seconds)}
    if once:
        changes["max_batches"] = 1
    if seconds is not None:
        changes["max_seconds"] = seconds
    return settings.limits.model_copy(update=changes)


def _settings(
    destination: str,
    lake: str,
    conf: str | Path | None,
    defs: str | Path | None,
    client: int,
    service: str | None,
    spark: str,
) -> Settings:
    """Returns what the file declares, or what the arguments say. Raises ConfigError."""
    changes: dict[str, Any] = {"spark": spark} if spark else {}
    if conf is not None:
        changes["conf"] = str(Path(conf).absolute())
    if address := _address(conf, service, defs):
        changes["service"] = address
    if defs is None:
        if not lake:
            raise ConfigError("the lake is not named", place=destination, hint="Give --lake, SLUICE_LAKE or --defs.")
        return Settings(destination=destination, lake=lake, client_id=client, snapshot="initial", **changes)
    found = load_settings(Path(defs), destination, client)
    if lake and lake.rstrip("/") != found.lake.rstrip("/"):
        hint = "Leave out --lake and SLUICE_LAKE, or correct the file."
        raise ConfigError(f"{found.lake} is the lake of {destination} there, not {lake}", place=str(defs), hint=hint)
    return found.model_copy(update=changes)


def _address(conf: str | Path | None, service: str | None, defs: str | Path | None) -> ServiceAddress | None:
    """Returns where the service is: as named, else as the configuration says if no defs.yaml does."""
    if service:
        return ServiceAddress(http=service)
    if defs is not None or conf is None:
        return None
    found, _ = config.load_service(Path(conf))
    doors = local_doors(found)
    return ServiceAddress(http=doors.http, flight=doors.flight, ca=str(found.tls_ca) if found.tls_ca else None)


def _token(conf: str | Path | None, service: str | None, defs: str | Path | None) -> str:
    """Returns the service's token of the configuration that says where the service is."""
    if service or defs is not None or conf is None:
        return ""
    return token_of(config.load_service(Path(conf))[0]) or ""


def _refuse_undeclared(settings: Settings, lake: LakeResource, rules: str) -> None:
    """Raises ConfigError if the lake was written by a defs.yaml that said more than where it is: without it tables
    would show what its rules hide, or be merged instead of landed."""
    name = settings.destination
    if rules:
        raise ConfigError(f"the service keeps rules of {name} that a defs.yaml declares", place=name, hint=_HINT)
    if lake.lake.logs(name) or noted_unions(lake.lake, name):
        what = f"tables of {name} have change logs or unions, which a defs.yaml declares"
        raise ConfigError(what, place=settings.lake, hint=_HINT)


def _red(names: Names, result: dg.AssetCheckResult) -> RedCheck:
    assert result.asset_key is not None
    warns = result.severity == dg.AssetCheckSeverity.WARN
    return RedCheck(names.subject(result.asset_key), str(result.check_name), result.description or "", warns)

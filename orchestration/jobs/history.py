"""A verb's report in Dagster: the history of assets, the run's log, and its summary.

What is done with an asset is reported before it begins and when it has ended. A run that is killed in between leaves
the first event. Of small tables that a snapshot loads together, both are reported when a table is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg

from cdc_core.errors import ConfigError, SluiceError
from orchestration.failures import error_metadata, failure
from orchestration.internals import SCHEDULE_NAME_TAG, SENSOR_NAME_TAG, USER_TAG
from orchestration.names import Names, place_tags
from orchestration.verbs.orders import Order
from orchestration.verbs.report import Done, Kind, Report

_BY = (USER_TAG, SCHEDULE_NAME_TAG, SENSOR_NAME_TAG)
_LOG_SECONDS = 5.0  # between two lines of the log


class History(Report):
    """The report of one run, which is asked for `order`. Raises Failure for a reason without words."""

    def __init__(
        self,
        context: dg.OpExecutionContext,
        names: Names,
        order: Order,
        reason: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._names, self._sums, self._clock = context, names, order.SUMS, clock
        self._logged = clock()
        self._summary: dict[str, Any] = {}
        self._outcomes: dict[str, Done] = {}
        self.reason = reason.strip()
        if not self.reason:
            place = f"ops.{context.op_def.name}.config.reason"
            raise failure(ConfigError("the reason is empty", place=place, hint="Say why: others read it later."))
        self._facts = {"action": order.action, "reason": self.reason, "run_id": context.run_id}
        if by := started_by(context.run.tags):
            self._facts["by"] = by

    def one(self, name: str, work: Callable[[], Done], kind: Kind = "delta") -> None:
        self._summary = dict(self._traced(name, work, kind).facts)

    def each(
        self, name: str, work: Callable[[], Done], kind: Kind = "delta", otherwise: Mapping[str, Any] | None = None
    ) -> None:
        subject = name if kind == "delta" else f"{name}__{kind}"
        try:
            self._outcomes[subject] = self._traced(name, work, kind, otherwise)
        except dg.Failure as error:
            self._context.log.error(f"{subject} failed: {error.description}")
            self._outcomes[subject] = Done(f"failed: {error.description}", {}, good=False)
        except Exception as error:  # whatever it is, the next table may do well
            self._context.log.exception(f"{subject} failed")
            self._outcomes[subject] = Done(f"failed: {_short(error)}", {}, good=False)

    def progress(self, text: str) -> None:
        if self._clock() - self._logged >= _LOG_SECONDS:
            self._logged = self._clock()
            self._context.log.info(text)

    def waiting(self, table: str, rows: Mapping[str, int]) -> None:
        for check, count in rows.items():
            text = f"{count} rows wait in the quarantine" if count else "no row waits in the quarantine"
            self._evaluated(table, check, text, passed=not count, quarantined=count)

    def accepted(self, table: str, checks: Sequence[str]) -> None:
        for check in checks:
            self._evaluated(table, check, f"accepted: {self.reason}", passed=True)

    def stopped(self, table: str, position: str) -> None:
        self._observe(self._names.delta(table), "stopped", {"position": position})

    def end(self) -> None:
        """Writes the summary as the run's metadata. Raises Failure when a table failed."""
        outcomes = self._outcomes
        if not outcomes:
            self._context.add_output_metadata(self._summary)
            return
        failed = [name for name, done in outcomes.items() if not done.good]
        summary: dict[str, Any] = {"done": len(outcomes) - len(failed), "failed": len(failed)}
        summary |= {name: sum(done.facts.get(name, 0) for done in outcomes.values()) for name in self._sums}
        summary["tables"] = {name: done.text for name, done in outcomes.items()}
        if failed:
            lines = [f"{len(failed)} of {len(outcomes)} tables failed: {', '.join(failed)}"]
            text = "\n".join(lines + [f"{name}: {outcomes[name].text}" for name in failed])
            raise dg.Failure(text, metadata=summary, allow_retries=False)
        self._context.add_output_metadata(summary)

    def _traced(
        self, name: str, work: Callable[[], Done], kind: Kind, otherwise: Mapping[str, Any] | None = None
    ) -> Done:
        """Does the work, with its trace in the asset's history. Raises Failure for a SluiceError, and for what is not
        as it should be."""
        names, context = self._names, self._context
        key = names.store if kind == "store" else getattr(names, kind)(name)
        with self._failing(key, otherwise or {}):
            self._observe(key, "begun", {})
            done = work()
            if not done.good:
                raise dg.Failure(done.text, metadata=dict(done.facts), allow_retries=False)
        self._observe(key, "done", done.facts)
        if done.reloaded:
            metadata = self._facts | known(done.facts)
            context.log_event(dg.AssetMaterialization(key, metadata=metadata, tags=place_tags(metadata)))
        context.log.info(done.text if kind == "store" else f"{name}: {done.text}")
        return done

    @contextmanager
    def _failing(self, key: dg.AssetKey, facts: Mapping[str, Any]) -> Iterator[None]:
        """Reports an error in the asset's history; a SluiceError becomes Dagster's failure."""
        try:
            yield
        except SluiceError as error:
            self._observe(key, "failed", {**facts, **error_metadata(error)})
            raise failure(error) from error
        except dg.Failure as error:
            self._observe(key, "failed", {**facts, **(error.metadata or {}), "message": error.description})
            raise
        except Exception as error:
            self._observe(key, "failed", {**facts, "message": _short(error)})
            raise

    def _evaluated(self, table: str, check: str, text: str, *, passed: bool, **facts: int) -> None:
        """Writes the verdict of a check that this run knows."""
        log_event: Callable[[Any], None] = self._context.log_event  # takes an evaluation too, though no type says so
        key, severity = self._names.delta(table), dg.AssetCheckSeverity.WARN
        log_event(
            dg.AssetCheckEvaluation(
                asset_key=key, check_name=check, passed=passed, description=text, severity=severity, metadata=facts
            )
        )

    def _observe(self, key: dg.AssetKey, outcome: str, facts: Mapping[str, Any]) -> None:
        metadata = {"outcome": outcome, **self._facts, **known(facts)}
        self._context.log_event(dg.AssetObservation(key, metadata=metadata))


def started_by(tags: Mapping[str, str]) -> str:
    """The user, schedule or sensor that started a run, "" where Dagster does not know. Without accounts it does not
    know people."""
    return next((tags[tag] for tag in _BY if tags.get(tag)), "")


def known(facts: Mapping[str, Any]) -> dict[str, Any]:
    """As metadata, which takes no None."""
    return {name: value for name, value in facts.items() if value not in (None, [])}


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:1000]

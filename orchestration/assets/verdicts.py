"""The verdicts of a run's checks, and which of them become events.

A check has an event when its verdict changes, or when it was selected for the run. Checks of tables without changes,
which were never red, have no event: a run writes by the number of changes, not of tables. With an asset's newest
materialization Dagster shows only checks that the same run or a later one evaluated: so a check that still fails has an
event in each run that materializes its asset.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from orchestration.internals import AssetCheckExecutionRecord

_KEYS_A_QUERY = 500


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a check on its table."""

    passed: bool
    severity: dg.AssetCheckSeverity
    description: str | None

    def differs(self, known: Verdict | None, *, words: bool) -> bool:
        """Whether the verdict is news. If both passed, their descriptions make no difference; else only if `words`
        count."""
        if known is None:
            return True
        if self.passed and known.passed:
            return False
        same = (self.passed, self.severity) == (known.passed, known.severity)
        return not same or (words and self.description != known.description)


@dataclass(slots=True)
class Verdicts:
    """The verdicts of one run. `instance`: where those of earlier runs are; None if nobody keeps them.
    `lasting`: checks that may change without rows; the red ones are looked up once. `log_event`: of the run. It takes
    an evaluation too, though the types of Dagster's do not say so.

    A check that fails, and one that passes again, has its event at once. Only the first verdict of a check, if it
    passes, can wait: `report` may have no time for it."""

    instance: dg.DagsterInstance | None
    log_event: Callable[[Any], None]
    lasting: Sequence[dg.AssetCheckKey] = ()
    clock: Callable[[], float] = time.monotonic
    _known: dict[dg.AssetCheckKey, Verdict | None] = field(default_factory=dict)
    _waiting: dict[dg.AssetCheckKey, dg.AssetCheckResult] = field(default_factory=dict)
    _written: set[dg.AssetCheckKey] = field(default_factory=set)

    @property
    def behind(self) -> bool:
        """Whether there are verdicts that had no time."""
        return bool(self._waiting)

    def red(self) -> set[dg.AssetKey]:
        """Returns the assets with a red check in Dagster, among the lasting ones and those reported in this run."""
        self._look_up(self.lasting)
        return {key.asset_key for key, one in self._known.items() if one is not None and not one.passed}

    def is_red(self, key: dg.AssetCheckKey) -> bool:
        """Whether the last verdict of a check, as far as it was looked up, is that it failed."""
        known = self._known.get(key)
        return known is not None and not known.passed

    def report(
        self,
        results: Iterable[dg.AssetCheckResult],
        *,
        words: bool = False,
        seconds: float = math.inf,
        materialized: Collection[dg.AssetKey] = (),
    ) -> None:
        """Writes an event for each that is news: the red ones, then those that are green again, then for `seconds`
        those that have passed for the first time, the longest waiting ones first. Of assets that the run materializes,
        a red one is news once."""
        began = self.clock()
        changed = self._add(results, materialized, words=words)
        for result in sorted(changed, key=lambda one: one.passed):
            self.write(evaluation_of(result))
        self.write_waiting(seconds - (self.clock() - began))

    def write_waiting(self, seconds: float) -> None:
        """Writes for so many seconds first verdicts that had no time; at least one."""
        began = self.clock()
        for result in list(self._waiting.values()):
            self.write(evaluation_of(result))
            if self.clock() - began >= seconds:
                return

    def write(self, event: dg.AssetCheckEvaluation) -> None:
        """Writes the event, whatever Dagster knows."""
        key = dg.AssetCheckKey(event.asset_key, event.check_name)
        self.log_event(event)
        self._known[key] = Verdict(event.passed, event.severity, event.description)
        self._written.add(key)
        self._waiting.pop(key, None)

    def end(
        self, results: Iterable[dg.AssetCheckResult], selected: Collection[dg.AssetCheckKey]
    ) -> Iterator[dg.AssetCheckResult]:
        """Yields the results of the checks that the run selected, and writes events of the others that are news."""
        results = list(results)
        for one in results:
            if key_of(one) in selected:
                self._waiting.pop(key_of(one), None)
                yield one
        self.report((one for one in results if key_of(one) not in selected), words=True)

    def _add(
        self, results: Iterable[dg.AssetCheckResult], materialized: Collection[dg.AssetKey], *, words: bool
    ) -> list[dg.AssetCheckResult]:
        """Has the first ones that passed wait, each with its last result. Returns the others that are news."""
        found, changed = {key_of(one): one for one in results}, []
        self._look_up(found)
        for key, result in found.items():
            known = self._known[key]
            hidden = key.asset_key in materialized and key not in self._written
            if known is None and result.passed:
                self._waiting[key] = result
            elif verdict_of(result).differs(known, words=words) or (hidden and not result.passed):
                changed.append(result)
        return changed

    def _look_up(self, keys: Iterable[dg.AssetCheckKey]) -> None:
        wanted = [key for key in keys if key not in self._known]
        for at in range(0, len(wanted), _KEYS_A_QUERY):
            some = wanted[at : at + _KEYS_A_QUERY]
            storage = self.instance.event_log_storage if self.instance is not None else None
            found = storage.get_latest_asset_check_execution_by_key(some) if storage is not None else {}
            self._known |= {key: _in(found.get(key)) for key in some}


def verdict_of(result: dg.AssetCheckResult) -> Verdict:
    return Verdict(result.passed, result.severity, result.description)


def evaluation_of(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """The result of a check as an event."""
    return dg.AssetCheckEvaluation(
        asset_key=key_of(result).asset_key,
        check_name=key_of(result).name,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=result.metadata or {},
    )


def key_of(result: dg.AssetCheckResult) -> dg.AssetCheckKey:
    assert result.asset_key is not None
    assert result.check_name is not None
    return dg.AssetCheckKey(result.asset_key, result.check_name)


def _in(record: AssetCheckExecutionRecord | None) -> Verdict | None:
    """Returns the verdict of a record, or None if there is none, or if the run died before it had one."""
    event = record.event.dagster_event if record and record.event else None
    if event is None or event.event_type != dg.DagsterEventType.ASSET_CHECK_EVALUATION:
        return None
    last = event.asset_check_evaluation_data
    return Verdict(last.passed, last.severity, last.description)

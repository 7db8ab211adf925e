"""`Rewrite`: replaces rows of a table at its present place, in one commit.

The commit carries the app id of the table's batches and the number after the last batch's version, at which no event
ends: a note in the table's properties says that it means that version. So Delta skips or refuses it when a batch came
in between, and the next batch finds the table at the same place. Killed anywhere, it is done again: the rows are right,
or as they were.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import LakeError
from spark_jobs.lake.failures import lake_errors
from spark_jobs.lake.record import REPAIRS, Mark, marked_property
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import DeltaCommit, TableState
from spark_jobs.load.replacement import Target, one_commit
from spark_jobs.load.result import WentOn
from spark_jobs.session import Sessions


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite of the target. `state` is the table's: only this run changes it from now on."""

    target: Target
    sessions: Sessions
    mark: Mark
    state: TableState

    @classmethod
    def begun(cls, target: Target, sessions: Sessions, at: int) -> Rewrite:
        """Begins a rewrite of a table at version `at` of the client's epoch. Raises WentOn for a table that is
        elsewhere by now, LakeError for a table whose rows were replaced too often at one place."""
        lake, path, app = target.lake, target.path, target.app
        last = lake.applied(path, [app])[0]  # read first: later versions are above it
        state = lake.state(path, app)
        if state is None or (state.applied or 0) != at:
            raise WentOn(path)
        mark = Mark.next(target.client.epoch, at, last, REPAIRS)
        if mark is None:
            remedy = copy_hint(target.client.destination, target.name)
            raise LakeError(f"its rows were replaced {REPAIRS} times since its last batch", place=path, hint=remedy)
        entered = target.fence.enter(path, app, state, marked_property(state.properties, mark))
        return cls(target, sessions, mark, entered)

    def about(self, kind: str, facts: Mapping[str, Any]) -> str:
        """Returns Delta's user metadata, as JSON without a `$`, which Spark would replace. It is unique to the
        commit."""
        return json.dumps({kind: {**facts, "token": self.target.fence.token}}).replace("$", "\\u0024")

    def check(self, version: int | None = None) -> None:
        """Raises WentOn if the table is no longer this run's, or not at that version."""
        target = self.target
        try:
            target.fence.check(target.path)
        except LakeError as error:
            raise WentOn(target.path) from error
        if version is not None and target.lake.open(target.path).version() != version:
            raise WentOn(target.path)

    def commit(
        self, about: str, statement: Callable[[SparkSession], None], remedy: str, *, few: bool = False
    ) -> DeltaCommit:
        """Executes `statement`, one statement of Spark's, and returns its commit. `few`: it has few rows, see
        `transaction`. Raises WentOn if another commit came in between, LakeError with the `remedy` if the table refuses
        the rows."""
        target = self.target
        with (
            self.sessions.take() as spark,
            lake_errors(target.path, remedy),
            one_commit(
                spark,
                target.path,
                target.app,
                self.mark.upto,
                about,
                few=few,
                rewrites=target.lake.is_small(target.path),
            ),
        ):
            statement(spark)
        made = target.lake.commit_noted(target.path, about)
        if made is None:
            raise WentOn(target.path)
        return made

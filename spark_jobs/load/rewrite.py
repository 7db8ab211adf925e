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
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.record import REPAIRS, Mark, marked_property
from spark_jobs.lake.state import DeltaCommit, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.load.replacement import one_commit
from spark_jobs.load.result import WentOn
from spark_jobs.session import Sessions


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite of the table at `path`, whose batches have the app id `app`. `state` is the table's: only this run
    changes it from now on."""

    lake: Lake
    sessions: Sessions
    fence: Fence
    path: str
    app: str
    mark: Mark
    state: TableState

    @classmethod
    def begun(cls, lake: Lake, sessions: Sessions, path: str, app: str, place: tuple[int, int], remedy: str) -> Rewrite:
        """Begins a rewrite at `place`: epoch and version. Raises WentOn for a table that is elsewhere by now, LakeError
        with the `remedy` for a table whose rows were replaced too often at one place."""
        (epoch, at), last = place, lake.applied(path, [app])[0]  # read first: later versions are above it
        state = lake.state(path, app)
        if state is None or (state.applied or 0) != at:
            raise WentOn(path)
        mark = Mark.next(epoch, at, last, REPAIRS)
        if mark is None:
            raise LakeError(f"its rows were replaced {REPAIRS} times since its last batch", place=path, hint=remedy)
        fence = Fence(lake, sessions)
        return cls(
            lake,
            sessions,
            fence,
            path,
            app,
            mark,
            fence.enter(path, app, state, marked_property(state.properties, mark)),
        )

    def about(self, kind: str, facts: Mapping[str, Any]) -> str:
        """Returns Delta's user metadata, as JSON without a `$`, which Spark would replace. It is unique to the
        commit."""
        return json.dumps({kind: {**facts, "token": self.fence.token}}).replace("$", "\\u0024")

    def check(self, version: int | None = None) -> None:
        """Raises WentOn if the table is no longer this run's, or not at that version."""
        try:
            self.fence.check(self.path)
        except LakeError as error:
            raise WentOn(self.path) from error
        if version is not None and self.lake.open(self.path).version() != version:
            raise WentOn(self.path)

    def commit(self, about: str, statement: Callable[[SparkSession], None], remedy: str) -> DeltaCommit:
        """Executes `statement`, one statement of Spark's, and returns its commit. Raises WentOn if another commit came
        in between, LakeError with the `remedy` if the table refuses the rows."""
        with (
            self.sessions.take() as spark,
            lake_errors(self.path, remedy),
            one_commit(spark, self.path, self.app, self.mark.upto, about),
        ):
            statement(spark)
        made = self.lake.commit_noted(self.path, about)
        if made is None:
            raise WentOn(self.path)
        return made

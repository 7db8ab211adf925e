"""The lake's table that a copy is put in the place of: fenced before, noted with the commit, found again after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile

from cdc_core.schema.names import full_name
from spark_jobs.copy.result import LakeClient, WentOn
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import landed_ends
from spark_jobs.lake.record import Mark
from spark_jobs.lake.state import TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.stores import flush


@dataclass(frozen=True, slots=True)
class Target:
    """One table of the lake, for one client."""

    lake: Lake
    fence: Fence
    client: LakeClient
    database: str
    table: str

    @property
    def name(self) -> str:
        return full_name(self.database, self.table)

    @property
    def path(self) -> str:
        return self.lake.path(self.database, self.table)

    @property
    def app(self) -> str:
        return self.client.app(self.name)

    def entered(self) -> TableState | None:
        """The table's state, None when there is none. Writers of earlier claims commit no more. Raises TableStopped for
        a table that somebody else made."""
        state = self.lake.state(self.path, self.app)
        if state is None:
            return None
        state.check_owner(self.client.destination, self.name, self.path)
        return self.fence.enter(self.path, self.app, state)

    def mark(self, before: TableState | None, low: int) -> Mark:
        """The mark of a copy with every row up to version `low`. Raises WentOn for a table that is beyond it."""
        last, epoch = self.lake.applied(self.path, [self.app])[0] if before else None, self.client.epoch
        if last is None or last < low:
            return Mark(epoch, low, low)
        mark = Mark.behind(epoch, low, last)
        if mark is None:
            raise WentOn(self.path)
        return mark

    def committed(self, about: str) -> int:
        """The Delta version of the commit with that metadata. It is on the disk, and from here on no statement of an
        earlier epoch begins. Raises WentOn where Delta skipped the commit, or such a statement came behind it."""
        for commit in self.lake.commits(self.path):
            if commit.user_metadata == about:
                self.fence.skip(self.path)
                self._pass_epochs(about)
                flush(self.lake.root)
                return commit.version
        raise WentOn(self.path)

    def _pass_epochs(self, about: str) -> None:
        """A merge of an earlier epoch's changes, which were landed and not merged, may have been sent and not begun: it
        would not see the copy. An empty commit says that the table has them, so that Delta skips it. Raises WentOn
        where one came before that."""
        client = self.client
        if not client.epoch:
            return
        ends = landed_ends(Ledger(self.lake, client.destination, client.client_id), self.name, client.epoch - 1)
        apps = {replace(client, epoch=epoch).app(self.name): end for epoch, end in ends.items()}
        applied = dict(zip(apps, self.lake.applied(self.path, [*apps]), strict=True))
        if passed := {app: end for app, end in apps.items() if (applied[app] or 0) < end}:
            self.fence.pass_over(self.path, passed)
        since = takewhile(lambda commit: commit.user_metadata != about, self.lake.commits(self.path))
        if any(int(commit.note.get("epoch", client.epoch)) < client.epoch for commit in since):
            raise WentOn(self.path)

"""`ClientTables`: the merged tables of one client, and their change logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cdc_core.schema.names import split_name
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.progress import Range, TableProgress
from spark_jobs.lake.state import LOG, app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.files import LogFile
from spark_jobs.landing.log import OpenedLog, TableLog


@dataclass(frozen=True, slots=True)
class ClientTables:
    """The merged tables of one client of one destination, and their logs."""

    lake: Lake
    destination: str
    client_id: int

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.lake, self.destination, self.client_id)

    def app(self, table: str, epoch: int) -> str:
        return app_id(self.destination, self.client_id, table, epoch)

    def path(self, table: str) -> str:
        return self.lake.path(*split_name(table))

    def log_path(self, table: str) -> str:
        return self.lake.log_path(*split_name(table))

    def log(self, table: str) -> OpenedLog | None:
        """Returns the table's log, or None if it has no log. Raises TableStopped for a damaged log, LakeError for one
        that cannot be read."""
        found = TableLog(self.lake, self.destination, self.client_id, table).open()
        return found if found is not None and LOG in found.properties else None

    def progress(self, table: str, upto: int, version: int | None = None) -> TableProgress | None:
        """Returns how far the merged table, or a version of it, is in the epochs up to `upto`; None if there is no
        table."""
        return TableProgress.read(self.ledger, table, upto, version)

    def comes_again(
        self,
        log: OpenedLog,
        files: Sequence[LogFile],
        epoch: int,
        end: int,
        after: int | None,
        progress: TableProgress,
    ) -> int | None:
        """Returns the version up to which a table without a key has the epoch's rows by earlier epochs; None if it has
        none of them so, or is at `after`, beyond them. `end`: the log's. Raises TableStopped."""
        earlier = [version for number, version in progress.ends.items() if number < epoch]
        if not any(earlier) or (after is not None and after >= max(earlier)):
            return None
        start = max(self._begins(files, epoch, end), after or 0)
        return replace(progress, keyed=False).repeats(Range(log.epoch(epoch), start, end))

    def _begins(self, files: Sequence[LogFile], epoch: int, end: int) -> int:
        """Returns the highest known lower bound of the epoch's rows, including rows that have yet to come."""
        own = [file.low - 1 for file in files if file.epochs[0] <= epoch <= file.epochs[1]]
        noted = self.ledger.stretches().get(epoch)
        return max(min(own, default=end), noted.start if noted else 0)

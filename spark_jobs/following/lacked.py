"""Which changes of a log its merged table lacks, epoch by epoch: pure but for a look at the ledger.

With a key, what comes again in a later epoch is merged again. Without one it is left out, up to where the log of the
epochs before it goes: these are merged first. Where it is not certain that the table has it, the table waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from deltalake import DeltaTable

from cdc_core.contract.claim import Claim
from spark_jobs.apply.epochs import recurring_to
from spark_jobs.following.files import LogFile
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.state import TableState, log_app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.definition import EPOCHS, epoch_began, has_key


class Follows(Protocol):
    """The merged tables of one client of one destination, and their logs: see `pending.Follows`."""

    @property
    def lake(self) -> Lake: ...

    @property
    def destination(self) -> str: ...

    @property
    def client_id(self) -> int: ...

    def app(self, table: str, epoch: int, /) -> str: ...

    def path(self, table: str, /) -> str: ...

    def is_over(self, state: TableState, epoch: int, /) -> bool: ...

    def merged_to(self, log: DeltaTable, state: TableState | None, epoch: int, /) -> int | None: ...

    def starting(self, log: DeltaTable, epoch: int, start: int, /) -> Claim: ...


@dataclass(frozen=True, slots=True)
class Lacked:
    """The rows of `epoch` behind version `after`, None for all, up to version `end`. `ends`: nothing behind `end` will
    ever count. `state` is the merged table's for the epoch, None where there is no table."""

    epoch: int
    after: int | None
    end: int
    state: TableState | None
    ends: bool = False


def lacked(
    follows: Follows,
    log: DeltaTable,
    table: str,
    files: Sequence[LogFile],
    epochs: Sequence[int],
    states: Mapping[int, TableState],
) -> Iterator[Lacked]:
    """In the order in which they are merged: of the epochs that count. Raises TableStopped at the first epoch of which
    nobody knows what the table lacks; it may come behind others."""
    repeats = not has_key(log.metadata().configuration)
    reached: dict[int, int] = {}
    for epoch in epochs:
        end = log.transaction_version(log_app_id(follows.destination, follows.client_id, table, epoch))
        state = states.get(epoch)
        if end is None or (state is not None and follows.is_over(state, epoch)):
            continue  # a file that was compacted spans the epoch, and has no row of it
        after, ends = follows.merged_to(log, state, epoch), False
        if repeats:
            left = _left(log, epoch)
            ends = left is not None and left < end and (after or 0) <= left
            end = left if ends and left is not None else end
            again = comes_again(follows, log, table, files, epoch, end, after, state, reached)
            after = max((one for one in (after, again) if one is not None), default=None)
            reached[epoch] = max(end, after or 0)
        yield Lacked(epoch, after, end, state, ends)


def _left(log: DeltaTable, epoch: int) -> int | None:
    """The version at which reading left the epoch for another server, which sends again what lies behind it; None where
    it did not, or where nobody knows. A batch that was landed there and not acked is such."""
    properties = log.metadata().configuration
    later = [int(key.removeprefix(EPOCHS)) for key in properties if key.startswith(EPOCHS)]
    for one in (one for one in later if one > epoch):
        _, seamless = epoch_began(properties, one, log.table_uri)
        if (left := dict(seamless).get(epoch + 1)) is not None:
            return left
    return None


def comes_again(
    follows: Follows,
    log: DeltaTable,
    table: str,
    files: Sequence[LogFile],
    epoch: int,
    end: int,
    after: int | None,
    state: TableState | None,
    reached: Mapping[int, int],
) -> int | None:
    """Up to where the table has the epoch's rows by earlier epochs; None for nothing, also where it is at `after`,
    beyond what they brought. `end`: the log's. `reached`: how far earlier epochs will be. Raises TableStopped."""
    path = follows.path(table)
    states = follows.lake.states(path, [follows.app(table, one) for one in range(epoch)]) if state else []
    there = {one: found.applied or 0 for one, found in enumerate(states)}
    known = [max(there.get(one, 0), reached.get(one, 0)) or None for one in range(epoch)]
    furthest = max((version for version in known if version is not None), default=None)
    if furthest is None or (after is not None and after >= furthest):
        return None
    claim = follows.starting(log, epoch, max(_begins(follows, files, epoch, end), after or 0))
    copied = state.copied if state else None
    return recurring_to(follows.lake, path, claim, table, keyed=False, copied=copied, reached=known)


def _begins(follows: Follows, files: Sequence[LogFile], epoch: int, end: int) -> int:
    """A version behind which all rows of the epoch are, also those to come: the highest that is known to be one."""
    own = [file.low - 1 for file in files if file.epochs[0] <= epoch <= file.epochs[1]]
    noted = Ledger(follows.lake, follows.destination, follows.client_id).stretches().get(epoch)
    return max(min(own, default=end), noted.start if noted else 0)

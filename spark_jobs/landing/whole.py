"""The beginning of a change log's whole part: the version of an epoch up to which some changes are missing in it.

A log may begin next to a table that has rows; changes of a table that was merged for a while went past it; old rows are
deleted when their time is over; and a log that cannot take new columns starts again. Each is noted in the commit that
does it, or in the next append, as the version of an app id of its own: a change of a property would make Delta refuse
each append that is under way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from deltalake import DeltaTable, Transaction

from cdc_core.schema.names import split_name
from spark_jobs.lake.progress import ALWAYS
from spark_jobs.lake.record import place_from, place_text
from spark_jobs.landing.log import OpenedLog, TableLog
from spark_jobs.landing.merged import merged_to

BEGAN = "sluice.log_began"


@dataclass(frozen=True, slots=True)
class Began:
    """The merged table when its log began: by epoch, the version up to which it had the changes, and the last statement
    that it had followed, as epoch and version. `version` is Delta's, -1 without a table. `empty`: it had no row, or did
    not exist."""

    empty: bool
    at: Mapping[int, int]
    followed: tuple[int, int] | None = None
    version: int = -1

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"followed": place_text(self.followed)})

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Began | None:
        """Returns the note in a log's properties, or None."""
        text = properties.get(BEGAN)
        if text is None:
            return None
        fields = json.loads(text)
        at = {int(epoch): int(version) for epoch, version in fields["at"].items()}
        return cls(fields["empty"], at, place_from(fields["followed"]), fields["version"])


def began(log: TableLog, epoch: int) -> Began:
    """Returns the note for a log that begins in `epoch`. Raises what `Lake.state` raises."""
    path = log.lake.path(*split_name(log.name))
    state = log.lake.state(path, "")
    if state is None:
        return Began(True, {})
    at = {one: version for one, version in merged_to(log, range(epoch + 1)).items() if version}
    empty = state.copied is None and not log.lake.open(path).get_add_actions().num_rows
    return Began(empty, at, state.followed, state.version)


def whole_app_id(destination: str, client_id: int, table: str, epoch: int) -> str:
    """Returns the app id whose version says up to where the log is not whole."""
    return f"sluice:{destination}:{client_id}:{table}:whole:{epoch}"


def lacks_to(log: DeltaTable, destination: str, client_id: int, table: str, epoch: int) -> int | None:
    """Returns the version up to which some of the epoch's changes are missing in the log, or None if it notes none."""
    began = Began.of(log.metadata().configuration)
    first = began.at.get(epoch) if began and not began.empty else None
    noted = log.transaction_version(whole_app_id(destination, client_id, table, epoch))
    return max((one for one in (first, noted) if one is not None), default=None)


def lacking(log: TableLog, upto: Mapping[int, int]) -> list[Transaction]:
    """Returns the transactions of a commit after which the log is not whole up to the version of each epoch."""
    apps = {epoch: whole_app_id(log.destination, log.client_id, log.name, epoch) for epoch in upto}
    return [Transaction(apps[epoch], version) for epoch, version in upto.items() if version < ALWAYS]


def gone_past(opened: OpenedLog, epoch: int) -> dict[int, int]:
    """Returns, by epoch up to `epoch`, the version up to which changes were merged into the table without landing."""
    first, found = Began.of(opened.properties), dict[int, int]()
    for one, there in merged_to(opened.log, range(epoch + 1)).items():
        if there >= ALWAYS:
            continue
        known = max(opened.end(one) or 0, first.at.get(one, 0) if first else 0)
        if there > known:
            found[one] = there
    return found

"""The beginning of a change log's whole part: the version of an epoch up to which some changes are missing in it.

A log may begin next to a table that has rows; changes of a table that was merged for a while went past it; old rows are
deleted when their time is over; and a log that cannot take new columns starts again. Each is noted in the commit that
does it, or in the next append, as the version of its own app id: a change of a property would make Delta refuse
each append that is under way.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdc_core.schema.names import split_name
from spark_jobs.lake.progress import ALWAYS
from spark_jobs.lake.record import Began
from spark_jobs.landing.log import OpenedLog, TableLog
from spark_jobs.landing.merged import merged_to


def began(log: TableLog, epoch: int) -> Began:
    """Returns the note for a log that begins in `epoch`. Raises what `Lake.state` raises."""
    path = log.lake.path(*split_name(log.name))
    state = log.lake.state(path, "")
    if state is None:
        return Began(True, {})
    at = {one: version for one, version in merged_to(log, range(epoch + 1)).items() if version}
    empty = state.copied is None and not log.lake.open(path).get_add_actions().num_rows
    return Began(empty, at, state.followed, state.version)


def lacking(log: TableLog, upto: Mapping[int, int]) -> dict[str, int]:
    """Returns the app ids, with their versions, of a commit after which the log is not whole up to the version of each
    epoch."""
    return {log.whole_app(epoch): version for epoch, version in upto.items() if version < ALWAYS}


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

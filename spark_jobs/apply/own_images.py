"""What a table needs of row images: that they are whole, or that those which leave columns out show enough.

A table with columns of Sluice's is written by all images: net changes have neither places nor last values. They cost
more than net changes: each image is sent, and Spark finds the last of each key. Images that leave columns out take what
they lack from the lake's rows, which must be those of their time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cdc_core.client.changes import RowsDoor, TableRead
from cdc_core.contract.claim import Claim
from cdc_core.errors import DecodeError, TableStopped
from cdc_core.rows.system_columns import CHANGES, LACKS_COLUMNS
from spark_jobs.changes.table_changes import Changes, OfClaim
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.remedy import copy_hint
from spark_jobs.lake.state import TableState

_WHY = "its row images leave columns out, and the table keeps deleted rows or their last change"
_FULL = "SET GLOBAL binlog_row_image=FULL (sessions may override it)"
_MOVED = (
    "rows come again, and an update that changed a key leaves columns out of its row image (binlog_row_image): by the "
    "earlier key the lake may have another row now"
)


def check_moved(changes: Changes, *, again: bool) -> None:
    """Raises CopyNeeded if a row takes values from the lake's row of its earlier key, and rows may come `again`: the
    lake is later than the changes, so that key may have no row any more, or another one, whose values would stay.

    A row that stays by its key does converge: whatever it lacks until then, the later images of its key come again.
    """
    if again and changes.counts.moved:
        raise CopyNeeded(_MOVED, changes.definition.name)


def check_kept(changes: Changes, state: TableState, destination: str) -> None:
    """Raises TableStopped if a key of a table that keeps dropped columns has another row now, and the images that would
    show which leave columns out: its row would keep the values of the one before. A copy would lose those columns, so
    no run makes it by itself."""
    if state.own or not changes.key or not changes.counts.lacking or not changes.counts.replaced:
        return
    if kept := changes.dropped_in(state):
        name, names = changes.definition.name, ", ".join(kept)
        raise TableStopped(
            f"its row images leave columns out, a key got another row, and the table keeps what the source has dropped "
            f"({names})",
            place=name,
            hint=f"{_FULL}. {copy_hint(destination, name)} The table then has the source's columns alone.",
        )


def images_read(net: Changes, claim: Claim, door: RowsDoor) -> TableRead:
    """Returns the read of the images, in as many splits as the net changes. Raises TableStopped if these show already
    that images leave columns out."""
    if net.counts.lacking:
        raise _lacking(net.definition.name, copy_hint(claim.destination, net.definition.name))
    source = net.source
    splits = len(source.read.tickets) if isinstance(source, OfClaim) else 1
    return door.info(claim, net.definition.name, mode=CHANGES, after=net.range.after, splits=splits)


@contextmanager
def whole_images(table: str, remedy: str) -> Iterator[None]:
    """Raises TableStopped if the service says that images leave columns out."""
    try:
        yield
    except (DecodeError, TableStopped) as error:
        if LACKS_COLUMNS not in error.message:
            raise
        raise _lacking(table, remedy) from error


def _lacking(table: str, remedy: str) -> TableStopped:
    hint = f"{_FULL}, or exempt the table in defs.yaml (`deletes`, `columns`)."
    return TableStopped(_WHY, place=table, hint=f"{hint} {remedy}")

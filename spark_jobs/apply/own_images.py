"""Reads all images of a table with columns of Sluice's: net changes have neither places nor last values.

They cost more than net changes: each image is sent, and Spark finds the last of each key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cdc_core.client.changes import RowsDoor, TableRead
from cdc_core.contract.claim import Claim
from cdc_core.errors import DecodeError, TableStopped
from cdc_core.rows.system_columns import CHANGES, LACKS_COLUMNS
from spark_jobs.changes.table_changes import Changes, OfClaim
from spark_jobs.lake.remedy import copy_hint

_WHY = "its row images leave columns out, and the table keeps deleted rows or their last change"


def images_read(net: Changes, claim: Claim, door: RowsDoor) -> TableRead:
    """Returns the read of the images, in as many splits as the net changes. Raises TableStopped if these show already
    that images leave columns out."""
    if net.counts.partial:
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
    hint = "SET GLOBAL binlog_row_image=FULL (sessions may override it), or exempt the table in defs.yaml (`deletes`, "
    return TableStopped(_WHY, place=table, hint=f"{hint}`columns`). {remedy}")

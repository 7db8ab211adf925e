"""GTIDs as values: MySQL's sets and MariaDB's positions, with union (`|`), subtraction (`-`) and containment (`>=`)."""

from __future__ import annotations

from cdc_core.gtid.mariadb import GtidPosition
from cdc_core.gtid.mysql import GtidSet

Gtids = GtidSet | GtidPosition

__all__ = ["GtidPosition", "GtidSet", "Gtids", "is_set", "parse_gtids"]


def parse_gtids(text: str, flavor: str) -> Gtids:
    """By the server's flavor: `mysql` or `mariadb`. Raises PositionError."""
    return GtidPosition.parse(text) if flavor == "mariadb" else GtidSet.parse(text)


def is_set(text: str) -> bool:
    """Whether a cursor's `gtid` is all that is behind it, and not just its last transaction: a set begins with a first
    transaction, or has several. MariaDB's one form is both."""
    if ":" not in text:
        return bool(text)
    gtids = GtidSet.parse(text)
    return len(gtids) > 1 or any(intervals[0][0] == 1 for _, intervals in gtids.parts)

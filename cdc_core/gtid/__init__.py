"""GTIDs as values: MySQL's sets and MariaDB's positions, with union (`|`), subtraction (`-`) and containment (`>=`)."""

from __future__ import annotations

from cdc_core.gtid.mariadb import GtidPosition
from cdc_core.gtid.mysql import GtidSet

Gtids = GtidSet | GtidPosition

__all__ = ["GtidPosition", "GtidSet", "Gtids", "parse_gtids"]


def parse_gtids(text: str, flavor: str) -> Gtids:
    """By the server's flavor: `mysql` or `mariadb`. Raises PositionError."""
    return GtidPosition.parse(text) if flavor == "mariadb" else GtidSet.parse(text)

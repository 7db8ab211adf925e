"""Transactions by name: one (`Gtid`), all that were executed in MySQL (`GtidSet`) or in MariaDB (`GtidPosition`).

Values only: union (`|`), subtraction (`-`), containment (`>=`). Nothing here asks a server or reads a binlog.
"""

from __future__ import annotations

from cdc_core.gtid.mariadb import GtidPosition
from cdc_core.gtid.mysql import Gtid, GtidSet

Gtids = GtidSet | GtidPosition

__all__ = ["Gtid", "GtidPosition", "GtidSet", "Gtids", "as_gtids", "parse_gtid_field", "parse_gtids", "was_executed"]


def parse_gtids(text: str, flavor: str) -> Gtids:
    """What was executed, as a server of that flavor (`mysql`, `mariadb`) writes it. Raises PositionError."""
    return GtidPosition.parse(text) if flavor == "mariadb" else GtidSet.parse(text)


def parse_gtid_field(text: str) -> Gtid | Gtids | None:
    """The `gtid` of a position in Canal's JSON. Raises PositionError.

    Canal keeps two things in this field: in GTID mode all that was executed, without it the last transaction. Their
    texts differ only so far: a set starts with a source's first transaction, or has several. MariaDB's form is one.
    """
    if not text:
        return None
    if ":" not in text:
        return GtidPosition.parse(text)
    gtids = GtidSet.parse(text)
    if len(gtids) > 1:
        return gtids
    ((source, ((number, _),)),) = gtids.parts
    return gtids if number == 1 else Gtid(*source, number)


def as_gtids(found: Gtid | Gtids) -> Gtids:
    """Returns a set that has the one transaction; a set, or MariaDB's position, as it is."""
    if isinstance(found, Gtid):
        return GtidSet.of({(found.server, found.tag): ((found.number, found.number + 1),)})
    return found


def was_executed(asked: Gtids, at: str) -> bool:
    """Whether all of `asked` was executed at a position with this `gtid` field: at least the set, or up to the last
    transaction. Raises PositionError."""
    there = parse_gtid_field(at)
    if isinstance(there, Gtid) and isinstance(asked, GtidSet):
        source = there.server, there.tag
        return all(one == source and intervals[-1][1] <= there.number + 1 for one, intervals in asked.parts)
    return type(there) is type(asked) and there >= asked  # type: ignore[operator]

"""`sluice remake DESTINATION TABLE`: makes a table of the lake anew from its change log, without the source."""

from __future__ import annotations

import json

from orchestration.commands.copy import Order
from orchestration.jobs.remake import NOTHING, base_facts, begin_of
from spark_jobs.following.base import Base, base_of
from spark_jobs.following.pending import Follows
from spark_jobs.following.remake import Remaker
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions


def run(order: Order, begin: str, *, dry_run: bool, as_json: bool) -> int:
    """Raises LakeError where the table cannot be made from that; nothing is written then."""
    follows, (table,) = Follows(Lake(order.lake), order.destination, order.client), order.tables
    version = begin_of(follows, table, begin)
    if dry_run:
        base = base_of(follows, table, version)
        _tell(base_facts(base) | {"dry_run": True}, f"{_text(base)}. Nothing was written.", as_json=as_json)
        return 0
    with Sessions(order.spark, order.spark_token, order.lake) as sessions:
        made = Remaker(follows, sessions, views=True).table(table, version)
    facts = base_facts(made.base) | {"rows": made.rows, "delta_version": made.delta_version, "untold": made.untold}
    told = f"{_text(made.base)}: {made.rows} rows, in version {made.delta_version}"
    _tell(facts, f"{told}\n{made.untold}".strip(), as_json=as_json)
    return 0


def _text(base: Base) -> str:
    begin = NOTHING if base.version is None else f"version {base.version}"
    undone = f"; undone: {', '.join(base.undone)}" if base.undone else ""
    return f"{base.table} from {begin} and at most {base.rows} rows of its log, as of {base.place[1]}{undone}"


def _tell(facts: dict[str, object], text: str, *, as_json: bool) -> None:
    print(json.dumps(facts) if as_json else text, flush=True)

"""spark_jobs.apply.result: what a batch came to, and what the ledger keeps of it."""

from __future__ import annotations

from cdc_core.errors import TableStopped
from spark_jobs.apply.commits import Commit, Earlier, SourceCounts
from spark_jobs.apply.decision import Decision
from spark_jobs.apply.result import BatchResult, Refusal, TableResult
from spark_jobs.lake.ledger import TableNote


def test_a_replay_adds_nothing_and_rests_on_earlier_commits() -> None:
    """Its counts are zero, its Delta version is the table's own."""
    earlier = Commit(9, source=SourceCounts(inserts=3), inserted=3, delta_version=4)
    replayed = TableResult(Decision("s.t", 9, after=9, delta_version=5), earlier=Earlier((earlier,)))

    assert (replayed.replayed, replayed.source, replayed.delta_version) == (True, SourceCounts(), 5)
    assert replayed.commits == (earlier,)


def test_the_ledger_keeps_each_table() -> None:
    """Those that were applied and those that refused."""
    counts = SourceCounts(inserts=3, updates=2, deletes=1, net_rows=4)
    commit = Commit(9, source=counts, inserted=3, updated=2, deleted=1, delta_version=6)
    batch = BatchResult((TableResult(Decision("s.t", 9), commit),), (Refusal("s.u", TableStopped("no", hint="h")),))

    assert batch.notes({}) == {
        "s.t": TableNote(inserts=3, updates=2, deletes=1, net_rows=4, delta_version=6),
        "s.u": TableNote(stopped=True),
    }

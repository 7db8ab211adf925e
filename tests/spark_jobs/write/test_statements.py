"""spark_jobs.write.statements: what a statement says. They need no Spark."""

from __future__ import annotations

from spark_jobs.write.statements import merge_keyed


def test_the_range_of_the_key_prunes_files() -> None:
    """And a batch without deletes has no clause for them."""
    statement = merge_keyed("/l/s/t", "v", ["id", "x"], ["id"], deletes=False, between=(5, 9))
    assert "t.`id` BETWEEN 5 AND 9" in statement
    assert "DELETE" not in statement

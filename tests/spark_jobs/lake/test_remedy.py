"""What the hints of tables name."""

from __future__ import annotations

from cdc_core.errors import UNNAMED, TableStopped
from spark_jobs.apply.result import Refusal


def test_a_hint_has_the_command_and_the_job_for_its_table() -> None:
    """Where it named the command alone, and where it had a word for the destination."""
    for hint in ("Correct the row; then reload it (sluice copy).", f"Run sluice copy {UNNAMED} s.t to mend it."):
        found = Refusal("s.t", TableStopped("wrong", hint=hint)).with_remedy("shop")
        assert "sluice copy shop s.t" in found.error.hint
        assert found.copy_needed is False
    named = Refusal("s.t", TableStopped("wrong", hint="Reload it (sluice copy).")).with_remedy("shop")
    assert "the job snapshot_shop" in named.error.hint

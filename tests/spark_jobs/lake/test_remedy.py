"""What the hints of tables name."""

from __future__ import annotations

from cdc_core.errors import BEGIN_ANEW, UNNAMED, TableStopped
from spark_jobs.apply.result import Refusal
from spark_jobs.lake.remedy import copy_hint, repair_hint, spelled_out


def test_a_hint_has_the_command_and_the_job_for_its_table() -> None:
    """Where it named the command alone, and where it had a word for the destination."""
    for hint in ("Correct the row; then reload it (sluice copy).", f"Run sluice copy {UNNAMED} s.t to mend it."):
        found = Refusal("s.t", TableStopped("wrong", hint=hint)).with_remedy("shop")
        assert "sluice copy shop s.t" in found.error.hint
        assert found.copy_needed is False
    named = Refusal("s.t", TableStopped("wrong", hint="Reload it (sluice copy).")).with_remedy("shop")
    assert "the job snapshot_shop" in named.error.hint


def test_a_hint_names_the_job_as_dagster_does() -> None:
    """Where the destination has other characters than a job may have. Names of tables stay."""
    for hint in (copy_hint("my-shop", "s.t"), copy_hint(UNNAMED, "s.t"), "Reload it (sluice copy)."):
        found = spelled_out(hint, "my-shop", "s.t")
        assert "sluice copy my-shop s.t" in found
        assert "the job snapshot_my_shop" in found
    assert "the job verify_my_shop" in repair_hint("my-shop", "s.t")
    error = TableStopped("wrong", hint=BEGIN_ANEW).named("my-shop")
    assert "sluice reset my-shop --anew" in error.hint
    assert "reset_my_shop with `anew`, then snapshot_my_shop." in error.hint
    hint = f"Correct S.{UNNAMED} and S.X_{UNNAMED}, S.{UNNAMED}S."
    assert spelled_out(hint, "my-shop", "s.t") == hint

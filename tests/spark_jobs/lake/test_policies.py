"""spark_jobs.lake.policies: which policy a table has."""

from __future__ import annotations

from spark_jobs.lake.policies import EVOLVE, Changed, Dropped, Policies, TablePolicy, policies_from, policies_json


def test_the_first_pattern_that_fits_counts() -> None:
    """A table of no pattern has the default; the text form keeps all of it."""
    audit = TablePolicy(Dropped.ARCHIVE, Changed.IGNORE)
    policies = Policies(tables={"shop.audit_*": audit, "shop.*": TablePolicy(changed=Changed.ASK)})
    assert policies.of("shop.audit_2025") == audit
    assert policies.of("shop.orders").changed is Changed.ASK
    assert policies.of("other.orders") == TablePolicy()
    assert policies_from(policies_json(policies)) == policies
    assert policies_from("{}") == EVOLVE

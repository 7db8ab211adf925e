"""Subscribe, claim, ack, rollback and leases."""

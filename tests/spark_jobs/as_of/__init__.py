"""As of a place: a version for each table."""
